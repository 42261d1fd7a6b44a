"""The report on the claims: numbers, figures and text become one PDF."""
