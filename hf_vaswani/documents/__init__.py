"""Documents of many formats: which of their text is to be translated, and the same bytes with translations in place.

[`read_document`] in `reading.py` opens one. Each format finds its texts in the original and leaves everything else
where it is.
"""
