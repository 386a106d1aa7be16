package docker

import (
	"bytes"
	"context"
	"io"
	"path"
	"strings"
)

// Helper is a short-lived container that runs a script on volumes.
type Helper struct {
	Image   string // with bash and coreutils
	Name    string // may be empty
	Labels  []string
	Volumes []string
	Stdin   io.Reader
}

// OnVolumes runs a bash script in a container with volumes at /volumes/NAME/_data, and returns its output. If the engine keeps all volumes in one folder, that
// is mounted: within one mount, files can be hard-linked.
func (d *Docker) OnVolumes(ctx context.Context, h Helper, script string, args ...string) ([]byte, error) {
	mounts, err := d.volumeMounts(ctx, h.Volumes)
	if err != nil {
		return nil, err
	}
	run := append([]string{"run", "--rm", "--interactive", "--network=none", "--privileged", "--entrypoint=bash"}, h.Labels...)
	if h.Name != "" {
		run = append(run, "--name", h.Name)
	}
	run = append(append(run, mounts...), h.Image, "-c", script, "bash")
	stdin := h.Stdin
	if stdin == nil {
		stdin = bytes.NewReader(nil)
	}
	return d.Output(ctx, stdin, append(run, args...)...)
}

func (d *Docker) volumeMounts(ctx context.Context, volumes []string) ([]string, error) {
	out, err := d.Output(ctx, nil, append([]string{"volume", "inspect", "--format", "{{.Mountpoint}}"}, volumes...)...)
	if err != nil {
		return nil, err
	}
	root := ""
	for i, dir := range strings.Fields(string(out)) {
		parent, ok := strings.CutSuffix(dir, path.Join("/", volumes[i], "_data"))
		if !ok || root != "" && root != parent {
			root = ""
			break
		}
		root = parent
	}
	if root != "" {
		return []string{"--mount", "type=bind,source=" + root + ",target=/volumes"}, nil
	}
	var each []string
	for _, v := range volumes {
		each = append(each, "--mount", "type=volume,source="+v+",target=/volumes/"+v+"/_data,volume-nocopy")
	}
	return each, nil
}

// CopyVolumes is a script that copies FROM TO FROM TO ..., each "VOLUME" or "VOLUME/PATH", concurrently, and prints the bytes used.
// containerd never changes blobs and unpacked layers, so these are hard-linked if possible. That includes containers'
// own layers, which are never reused: a booting node recreates every container.
const CopyVolumes = `
at() { case $1 in */*) echo "/volumes/${1%%/*}/_data/${1#*/}" ;; *) echo "/volumes/$1/_data" ;; esac; }
tree() { # ROOT FROM TO
  local entry plain=()
  mkdir -p "$3" || return
  for entry in "$2"/*; do
    local name=${entry#"$1"/} to=$3/${entry##*/}
    if [[ $name =~ ^lib/containerd/[^/]+/(blobs|snapshots)$ ]]; then
      cp -al "$entry" "$to" 2>/dev/null || { rm -rf "$to" && cp -a --sparse=always "$entry" "$to"; } || return
    elif [[ $name =~ ^lib(/containerd(/[^/]+)?)?$ && -d $entry && ! -L $entry ]]; then
      tree "$1" "$entry" "$to" || return
    else
      plain+=("$entry")
    fi
  done
  [ ${#plain[@]} = 0 ] || cp -a --sparse=always -t "$3" -- "${plain[@]}" || return
  chown --reference="$2" "$3" && chmod --reference="$2" "$3" && touch --reference="$2" "$3"
}
shopt -s nullglob dotglob
running=() made=()
while [ $# -gt 0 ]; do
  from=$(at "$1") to=$(at "$2")
  tree "$from" "$from" "$to" &
  running+=($!) made+=("$to")
  shift 2
done
failed=
for job in "${running[@]}"; do wait "$job" || failed=1; done
[ -z "$failed" ] || exit 1
blocks=0
while read -r n; do blocks=$((blocks + n)); done < <(find "${made[@]}" -type f -links 1 -printf '%b\n')
echo $((blocks * 512))`
