# So many commands, each guarded by a check that says yes: all are satisfied.
# @each
check-@n:
  cmd.run:
    - name: /bin/false
    - unless: test -d /
# @end
