"""The page for people who translate, with the model in their browser or with a server.

`page.js` is the page. It is started by what translates: `browser.js` has the model in a worker, `server.js` calls a
server. `files.py` tells which files each of the two pages has.
"""
