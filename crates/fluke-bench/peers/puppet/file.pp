# One file that somebody has changed.
file { '@root/file':
  content => "as it should be\n",
  mode    => '0644',
}
