/* A header
   of two lines */
a = 1 # one
bb = 22 // two
ccc = 333 /* three */

   # alone
d = [ # opens
      1, # first
    22,   # second
      # between

  333
] # closes
e { # block
  f = 1
      g = { h = 1 } # same line
}
