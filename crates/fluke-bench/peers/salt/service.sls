# One service that somebody has killed.
kept:
  service.running: []
