"""What things are called: concepts with their forms and codes, units, people, cues, and one matcher.

    matching      the notation of forms in all tables, and the matcher that finds them in texts
    concepts      conditions, tests, drugs, procedures, vaccines and findings, by name and in texts
    codes         whether a code or a display of a record names a concept
    drugs         ingredients, brands, and the ingredients that a display names
    units         units of measurement and conversions
    people        relatives of the patient
    body_parts    parts of the body and sides
    cues          words that say how a statement holds: denied, planned, due, changed
    relations     which concepts stand for others
    topics        the groups of words that the engine's features were fitted with
    glossary      abbreviations, brands and terms in plain words
    words         words in one form, stop words and other lists

The tables in `data/` are independent of any record. Nothing here imports more than `core`.
"""
