//! Ten thousand agents: the page is there at once, and stays quick.
