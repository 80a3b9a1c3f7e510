"""The desk: a page in the browser where a researcher sees matches, judges them and keeps seeds.

`server` answers the browser and lets nobody else in; `views` says what each page shows and does, in
words of `worker.actions`; `static` is the page itself. What was followed of the topics meanwhile
stands in the `Desk`.
"""
