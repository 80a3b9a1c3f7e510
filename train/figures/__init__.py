"""The paper's figures, drawn for a model: numbers by pure functions, drawing apart from them."""
