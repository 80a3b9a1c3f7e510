"""The desk's web server: who may ask, what the page is made of, and how a question is answered."""
