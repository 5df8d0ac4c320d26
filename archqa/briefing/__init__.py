"""A patient's summary for a visit, each line with what it rests on: `archqa.brief`."""
