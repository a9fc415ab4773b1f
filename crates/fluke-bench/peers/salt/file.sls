# One file that somebody has changed.
@root/file:
  file.managed:
    - contents: as it should be
    - mode: "0644"
