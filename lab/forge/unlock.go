package forge

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// unlockScript removes the locks of references in the repository $1 and prints them, once no git runs there. The server kills git when its client is gone, and git
// removes its locks on SIGTERM, not on SIGKILL.
const unlockScript = `cd "$1" || exit
for i in $(seq 50); do
  busy=
  for p in /proc/[0-9]*; do
    if [ "$(cat "$p/comm" 2>/dev/null)" = git ] && [ "$(readlink "$p/cwd")" = "$PWD" ]; then busy=$p; fi
  done
  [ -n "$busy" ] || break
  sleep 0.2
done
[ -z "$busy" ] || { echo "git is still running: process ${busy#/proc/}" >&2; exit 1; }
find refs packed-refs.lock HEAD.lock -name '*.lock' -print -delete 2>/dev/null
true`

// unlockTimeout bounds the script, which waits for 10 s.
const unlockTimeout = 30 * time.Second

// unlock removes reference locks of a killed git and reports whether there were any.
func (g *Gitea) unlock(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, unlockTimeout)
	defer cancel()
	out, err := g.docker.Exec(ctx, g.name, nil, "sh", "-c", unlockScript, "sh", workPath+"/repositories/"+g.creds.User+"/"+g.repository+".git")
	if err != nil {
		return false, fmt.Errorf("locks of the forge's repository: %w", err)
	}
	return len(strings.Fields(string(out))) > 0, nil
}
