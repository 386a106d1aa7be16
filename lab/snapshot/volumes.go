package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/docker"
)

// store is a volume that holds a snapshot, or a part of one.
type store struct {
	name   string
	helper string
}

func (s *Snapshots) labels(more map[string]string) []string {
	labels := map[string]string{lab.LabelName: s.lab, lab.LabelPart: part}
	for k, v := range more {
		labels[k] = v
	}
	return docker.Labels(labels)
}

func (s *Snapshots) makeVolume(ctx context.Context, name string, labels map[string]string) error {
	_, err := s.docker.Output(ctx, nil, append(append([]string{"volume", "create"}, s.labels(labels)...), name)...)
	return err
}

// volumes are those of the lab's snapshots, whole or not.
func (s *Snapshots) volumes(ctx context.Context) ([]store, error) {
	out, err := s.docker.Output(ctx, nil, "volume", "ls", "--filter", "label="+lab.LabelName+"="+s.lab, "--filter", "label="+lab.LabelPart+"="+part,
		"--format", `{{.Name}} {{.Label "`+labelHelper+`"}}`)
	if err != nil {
		return nil, err
	}
	var list []store
	for line := range strings.Lines(string(out)) {
		name, image, _ := strings.Cut(strings.TrimSpace(line), " ")
		list = append(list, store{name: name, helper: image})
	}
	return list, nil
}

// Names are those of snapshots as their volumes are labelled, sorted, those too that are not whole: a guess that takes no time.
func (s *Snapshots) Names(ctx context.Context) ([]string, error) {
	out, err := s.docker.Output(ctx, nil, "volume", "ls", "--filter", "label="+lab.LabelName+"="+s.lab, "--filter", "label="+labelName, "--format", `{{.Label "`+labelName+`"}}`)
	names := strings.Fields(string(out))
	slices.Sort(names)
	return slices.Compact(names), err
}

// Has refuses a name that no snapshot has; an empty one is for the newest.
func (s *Snapshots) Has(ctx context.Context, name string) error {
	names, err := s.Names(ctx)
	if err != nil || slices.Contains(names, name) || name == "" && len(names) > 0 {
		return err
	}
	_, err = s.Find(ctx, name)
	return err
}

// Suited names the newest snapshot that has all of these clusters; empty where there is none, or the container engine does not answer.
func (s *Snapshots) Suited(ctx context.Context, clusters []lab.Cluster) (string, error) {
	if _, err := s.docker.Info(ctx); err != nil { // the checks of the machine come later, and cure this
		return "", nil
	}
	list, err := s.List(ctx)
	if err != nil {
		return "", err
	}
	for _, o := range list {
		if !slices.ContainsFunc(clusters, func(c lab.Cluster) bool { _, ok := o.Clusters[c.Name]; return !ok }) {
			return o.Name, nil
		}
	}
	return "", nil
}

// stage is the volume in which a snapshot is unpacked.
func (s *Snapshots) stage() string { return s.images() + "-stage" }

// Clean removes what a run that was killed has left: its helper, volumes that hold no whole snapshot, and images of none.
func (s *Snapshots) Clean(ctx context.Context) error {
	_, err := s.tidy(ctx)
	return err
}

// tidy is Clean, and returns the whole snapshots.
func (s *Snapshots) tidy(ctx context.Context) ([]Snapshot, error) {
	if err := s.stopHelper(ctx); err != nil {
		return nil, err
	}
	volumes, err := s.volumes(ctx)
	if err != nil {
		return nil, err
	}
	whole, err := s.read(ctx, volumes)
	if err != nil {
		return nil, err
	}
	for _, v := range volumes {
		if !slices.ContainsFunc(whole, func(o Snapshot) bool { return o.volume == v.name }) {
			if err := s.removeVolume(ctx, v.name); err != nil {
				return nil, err
			}
		}
	}
	out, err := s.docker.Output(ctx, nil, "image", "ls", "--format", "{{.Repository}}:{{.Tag}}", s.images())
	if err != nil {
		return nil, err
	}
	for _, ref := range strings.Fields(string(out)) {
		if !slices.ContainsFunc(whole, func(o Snapshot) bool { return slices.Contains(o.refs(), ref) }) {
			if err := s.untag(ctx, ref); err != nil {
				return nil, err
			}
		}
	}
	return whole, nil
}

// stopHelper removes a helper that outlived its run.
func (s *Snapshots) stopHelper(ctx context.Context) error {
	_, err := s.docker.Output(ctx, nil, "rm", "--force", s.images())
	if docker.NotFound(err) || docker.Said(err, "is already in progress") {
		return nil
	}
	return err
}

// refs are a snapshot's images.
func (o Snapshot) refs() []string {
	var refs []string
	for _, m := range o.Made {
		refs = append(refs, m.Ref)
	}
	return refs
}

// remove removes a snapshot: its volume, without which it is none, and then its images.
func (s *Snapshots) remove(ctx context.Context, o Snapshot) error {
	if err := s.removeVolume(ctx, o.volume); err != nil {
		return err
	}
	return s.untag(ctx, o.refs()...)
}

func (s *Snapshots) removeVolume(ctx context.Context, name string) error {
	if _, err := s.docker.Output(ctx, nil, "volume", "rm", "--force", name); err != nil && !docker.NotFound(err) {
		return err
	}
	return nil
}

// untag takes names from images, which go with them. One that a container was made from stays, until Clean finds it unused.
func (s *Snapshots) untag(ctx context.Context, refs ...string) error {
	for _, ref := range refs {
		if _, err := s.docker.Output(ctx, nil, "image", "rm", ref); err != nil && !docker.NotFound(err) && !docker.Said(err, "is using its referenced image") &&
			!docker.Said(err, "is being used by") {
			return err
		}
	}
	return nil
}

// helper is a container that works on volumes.
type helper struct {
	image   string
	volumes []string
	stdin   io.Reader
	reads   bool // changes nothing
}

// help runs a script over volumes, each at /volumes/NAME/_data. Where the engine keeps them all in one folder, they are reached through it: within one mount,
// files can be linked. One that changes something has a name, by which it is found where it outlives a killed run.
func (s *Snapshots) help(ctx context.Context, h helper, script string, args ...string) ([]byte, error) {
	mounts, err := s.mounts(ctx, h.volumes)
	if err != nil {
		return nil, err
	}
	run := append([]string{"run", "--rm", "--interactive", "--network=none", "--privileged", "--entrypoint=bash"}, s.labels(nil)...)
	if !h.reads {
		run = append(run, "--name", s.images())
	}
	run = append(append(run, mounts...), h.image, "-c", script, "bash")
	stdin := h.stdin
	if stdin == nil {
		stdin = bytes.NewReader(nil)
	}
	out, err := s.docker.Output(ctx, stdin, append(run, args...)...)
	if errors.Is(context.Cause(ctx), errSlow) {
		return nil, errSlow
	}
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	return out, nil
}

func (s *Snapshots) mounts(ctx context.Context, volumes []string) ([]string, error) {
	out, err := s.docker.Output(ctx, nil, append([]string{"volume", "inspect", "--format", "{{.Mountpoint}}"}, volumes...)...)
	if err != nil {
		return nil, err
	}
	var each []string
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
	for _, v := range volumes {
		each = append(each, "--mount", "type=volume,source="+v+",target=/volumes/"+v+"/_data,volume-nocopy")
	}
	return each, nil
}

// readScript prints the documents of volumes, each on a line after the volume's name.
const readScript = `for v; do [ ! -f "/volumes/$v/_data/snapshot.json" ] || { printf '%s ' "$v" && cat "/volumes/$v/_data/snapshot.json"; }; done`

// writeScript writes the document of a volume, once all else is on disk.
const writeScript = `set -e; cd "/volumes/$1/_data"; sync -f .; cat >new; sync new; mv new snapshot.json; sync .`

// copyScript copies FROM TO FROM TO ..., each "VOLUME" or "VOLUME/PATH", side by side, and prints how many bytes that took. containerd never changes a blob, nor
// a layer once it is unpacked: these are linked where that can be done. A container's own layer, which is among them, is never used again, as a node that boots
// makes every container anew.
const copyScript = `
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

// moveScript moves what is in FROM TO FROM TO ..., as copyScript takes them, and gives TO the owner and the mode of FROM.
const moveScript = `set -e
at() { case $1 in */*) echo "/volumes/${1%%/*}/_data/${1#*/}" ;; *) echo "/volumes/$1/_data" ;; esac; }
while [ $# -gt 0 ]; do
  from=$(at "$1") to=$(at "$2")
  find "$to" -mindepth 1 -delete
  find "$from" -mindepth 1 -maxdepth 1 -exec mv -t "$to" {} +
  chown --reference="$from" "$to"
  chmod --reference="$from" "$to"
  shift 2
done`
