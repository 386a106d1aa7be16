package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/docker"
)

// store is a volume with a snapshot or a part of one.
type store struct {
	name     string
	snapshot string // name; empty for a staged one
	helper   string // image with tools
	base     string // its base, by id
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

// volumes lists the volumes of snapshots, complete or not.
func (s *Snapshots) volumes(ctx context.Context) ([]store, error) {
	out, err := s.docker.Output(ctx, nil, "volume", "ls", "--filter", "label="+lab.LabelName+"="+s.lab, "--filter", "label="+lab.LabelPart+"="+part,
		"--format", `{{.Name}},{{.Label "`+labelName+`"}},{{.Label "`+labelHelper+`"}},{{.Label "`+labelBase+`"}}`)
	if err != nil {
		return nil, err
	}
	var list []store
	for line := range strings.Lines(string(out)) {
		field := strings.Split(strings.TrimSpace(line), ",")
		if len(field) != 4 {
			return nil, fmt.Errorf("snapshot: docker lists a volume as %q", line)
		}
		list = append(list, store{name: field[0], snapshot: field[1], helper: field[2], base: field[3]})
	}
	return list, nil
}

// Names returns the sorted names of snapshots from their volumes' labels. It is fast, but includes incomplete ones.
func (s *Snapshots) Names(ctx context.Context) ([]string, error) {
	out, err := s.docker.Output(ctx, nil, "volume", "ls", "--filter", "label="+lab.LabelName+"="+s.lab, "--filter", "label="+labelName, "--format", `{{.Label "`+labelName+`"}}`)
	names := strings.Fields(string(out))
	slices.Sort(names)
	return slices.Compact(names), err
}

// Has returns an error if there is no snapshot of a name; an empty name is the newest.
func (s *Snapshots) Has(ctx context.Context, name string) error {
	names, err := s.Names(ctx)
	if err != nil || slices.Contains(names, name) || name == "" && len(names) > 0 {
		return err
	}
	_, err = s.Find(ctx, name)
	return err
}

// Suited returns the newest intact snapshot that has all of the clusters, or "" if there is none or the engine does not
// answer.
func (s *Snapshots) Suited(ctx context.Context, clusters []lab.Cluster) (string, error) {
	if _, err := s.docker.Info(ctx); err != nil { // reported by the checks that follow
		return "", nil
	}
	list, err := s.List(ctx)
	if err != nil {
		return "", err
	}
	for _, o := range list {
		if o.Restorable() == nil && !slices.ContainsFunc(clusters, func(c lab.Cluster) bool { _, ok := o.Clusters[c.Name]; return !ok }) {
			return o.Name, nil
		}
	}
	return "", nil
}

// stage returns the volume of a staged snapshot.
func (s *Snapshots) stage() string { return s.images() + "-stage" }

// Clean removes leftovers of killed runs: helpers, incomplete volumes and unused images.
func (s *Snapshots) Clean(ctx context.Context) error {
	_, err := s.tidy(ctx)
	return err
}

// tidy is Clean, and returns the complete snapshots.
func (s *Snapshots) tidy(ctx context.Context) ([]Snapshot, error) {
	if err := s.stopHelper(ctx); err != nil {
		return nil, err
	}
	volumes, err := s.volumes(ctx)
	if err != nil {
		return nil, err
	}
	refs, err := s.refs(ctx)
	if err != nil {
		return nil, err
	}
	whole, err := s.read(ctx, volumes, refs)
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
	for _, ref := range refs {
		if !slices.ContainsFunc(whole, func(o Snapshot) bool { return slices.Contains(o.images, ref) }) {
			if err := s.untag(ctx, ref); err != nil {
				return nil, err
			}
		}
	}
	return whole, nil
}

// stopHelper removes the helper of a killed run.
func (s *Snapshots) stopHelper(ctx context.Context) error {
	_, err := s.docker.Output(ctx, nil, "rm", "--force", s.images())
	if errors.Is(err, docker.ErrRemoved) {
		return nil
	}
	return err
}

// refs returns the images of all snapshots, complete or not.
func (s *Snapshots) refs(ctx context.Context) ([]string, error) {
	out, err := s.docker.Output(ctx, nil, "image", "ls", "--format", "{{.Repository}}:{{.Tag}}", s.images())
	return strings.Fields(string(out)), err
}

// images returns those of refs that belong to the volume, by the generation in both names.
func (v store) images(refs []string) []string {
	var list []string
	for _, ref := range refs {
		_, tag, _ := strings.Cut(ref, ":")
		generation, _, _ := strings.Cut(tag, "-")
		if strings.HasSuffix(v.name, "-"+generation) {
			list = append(list, ref)
		}
	}
	return list
}

// remove deletes a snapshot: first its volume, which invalidates it, then its images.
func (s *Snapshots) remove(ctx context.Context, o Snapshot) error {
	if err := s.removeVolume(ctx, o.volume); err != nil {
		return err
	}
	return s.untag(ctx, o.images...)
}

func (s *Snapshots) removeVolume(ctx context.Context, name string) error {
	if _, err := s.docker.Output(ctx, nil, "volume", "rm", "--force", name); err != nil && !docker.NotFound(err) {
		return err
	}
	return nil
}

// untag untags images, which deletes them. One in use by a container stays until Clean finds it unused.
func (s *Snapshots) untag(ctx context.Context, refs ...string) error {
	for _, ref := range refs {
		if _, err := s.docker.Output(ctx, nil, "image", "rm", ref); err != nil && !docker.NotFound(err) && !errors.Is(err, docker.ErrInUse) {
			return err
		}
	}
	return nil
}

// writer returns a helper that changes volumes. It is named, so that it can be found after a kill.
func (s *Snapshots) writer(image string, volumes ...string) docker.Helper {
	return docker.Helper{Image: image, Name: s.images(), Volumes: volumes}
}

// help runs a script on volumes, as docker.OnVolumes does.
func (s *Snapshots) help(ctx context.Context, h docker.Helper, script string, args ...string) ([]byte, error) {
	h.Labels = s.labels(nil)
	out, err := s.docker.OnVolumes(ctx, h, script, args...)
	if errors.Is(context.Cause(ctx), errTimeout) {
		return nil, errTimeout
	}
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	return out, nil
}

// readScript prints the metadata of volumes, encoded, one per line, after the volume's name. It may be garbled.
const readScript = `for v; do [ ! -f "/volumes/$v/_data/snapshot.json" ] || { printf '%s ' "$v"; base64 --wrap=0 "/volumes/$v/_data/snapshot.json"; echo; }; done`

// writeScript writes the metadata of a volume after all else is synced.
const writeScript = `set -e; cd "/volumes/$1/_data"; sync -f .; cat >new; sync new; mv new snapshot.json; sync .`

// moveScript moves the content of FROM TO FROM TO ..., as in docker.CopyVolumes, and sets owner and mode of TO to those of
// FROM.
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
