# The web tier.
locals {
app_dir="/opt/app"
      node = "22"   # long term support
  ports=[80,443,   8080]
    names = {for k,v in local.people:k=>v.name if v.active}
}


task "runtimes"   {
description="Node ${ local.node } for the web tier"
drift{policy="remediate"}

	selector {
		match_labels={role="web",env="production"}
	}

  mise "node" {
  working_dir=local.app_dir  // where the app lives
   check_task = "check-node-${local.node}"
   apply_task="install-node-${local.node}"
   env = {
   A=1
     LONGER = upper( "x" )
   // a comment
   B:2
   }
  }

 shell   "migrate" {
 check=<<-EOT
      test -f ${ local.app_dir }/done
        || exit   1
    EOT
 timeout="5m" /* enough */
 args = concat([
 "a",
 "b" ],
 local.more)
 n = -1+ -local.x*( 2-3 )
 ok = !a&&b||c ? [ ] : { }
 }
}
