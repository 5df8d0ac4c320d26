"""What things are called: concepts with their forms and codes, units, people, cues, and one matcher.

    matching      the notation of forms in all tables, and the matcher that finds them in texts
    concepts      concepts by name, in questions and in sentences, and how they relate
    concept       what a concept is, and the marks of its forms
    codes         whether a code or a display of a record names a concept
    code_systems  names of code systems, and how their codes are compared
    drugs         ingredients, brands, and the ingredients that a display names
    units         units of measurement and conversions
    people        relatives of the patient; parts and sides of the body
    cues          words that say how a statement holds: denied, planned, due, changed
    topics        the groups of words that the features of the engine were fitted with
    glossary      abbreviations, brands and terms in plain words
    words         words in one form, stop words and other lists

The tables in `data/` are independent of any record.
"""
