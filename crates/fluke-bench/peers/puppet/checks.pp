# So many commands, each guarded by a check that says yes: all are satisfied.
# @each
exec { 'check-@n':
  command  => '/bin/false',
  unless   => 'test -d /',
  provider => shell,
}
# @end
