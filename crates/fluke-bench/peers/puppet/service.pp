# One service that somebody has killed.
service { 'kept':
  ensure => running,
}
