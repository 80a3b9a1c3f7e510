"""Vector registers for numba, and matrix products of rounded rows in them."""
