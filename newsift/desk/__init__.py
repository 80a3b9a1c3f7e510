"""The desk: a page in the browser on which people read matches, judge them and edit seeds.

`site` serves the browser and `guard` checks who asks; `views` has the endpoints of each page, and
`static` the pages. `session` has the objects that all endpoints share.
"""
