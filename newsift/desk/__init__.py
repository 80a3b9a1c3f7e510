"""The desk: a page in the browser where a researcher sees matches, judges them and keeps seeds.

`site` answers the browser and `guard` lets nobody else in; `views` says what each page shows and
does, in words of `newsift.operations`; `static` is the page itself. What the pages share stands in
`session`.
"""
