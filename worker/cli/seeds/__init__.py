"""The commands of `newsift seeds`: articles from files and pages to the control topic and back."""
