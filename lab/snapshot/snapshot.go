// Package snapshot saves and restores the containers of a lab with their file systems and volumes.
//
// A snapshot is a Docker volume and an image per container. The metadata in the volume is written last: without it,
// there is no snapshot.
package snapshot

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"homelab/lab"
	"homelab/lab/docker"
)

const (
	part         = "snapshot"
	labelName    = "lab.homelab/snapshot"
	labelHelper  = "lab.homelab/helper" // image with the tools for the scripts
	labelBase    = "lab.homelab/base"   // base of labelHelper, which has the tools, too
	cleanUpLimit = time.Minute
	workTimeout  = 10 * time.Minute // copying a whole lab on a slow disk
)

// errTimeout is the cause of a copy's timeout.
var errTimeout = &lab.Error{Exit: lab.ExitTimeout, Code: "timeout", Message: "the lab was not copied within ten minutes", Cure: "docker system df shows its size; lab snapshot rm frees space"}

// CheckName validates the name of a snapshot.
func CheckName(name string) error {
	if lab.IsName(name) {
		return nil
	}
	return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("%q cannot be the name of a snapshot", name), Cure: lab.NameRule}
}

// Contents describes a snapshot, without the containers' data.
type Contents struct {
	Clusters map[string][]string `json:"clusters"` // node containers per cluster, at least one
	Others   []string            `json:"others"`   // other containers
	Subnet   string              `json:"subnet"`   // of their network; empty if unknown
	Files    map[string][]byte   `json:"files"`    // lab's own files, by path
	Foreign  *Foreign            `json:"foreign"`  // nil before it was recorded
}

// Foreign is what others had put into the forge, and nothing else had.
type Foreign struct {
	Unknown string            `json:"unknown"` // why it is not known; empty if it is
	Items   map[string]string `json:"items"`   // descriptions, by a commit's hash or themselves
}

// format is that of the metadata. It grows when an older lab would restore a snapshot wrongly.
const format = 1

// Snapshot is a complete snapshot. If all images that could read its metadata were removed, only its name and Pruned are set; if its metadata cannot be read, only its
// name and Unreadable.
type Snapshot struct {
	Format int `json:"format"` // 0 before it was recorded

	Name  string    `json:"name"`
	Taken time.Time `json:"taken"`
	Bytes int64     `json:"bytes"` // on disk, without data shared with the lab
	Contents
	Made []container `json:"containers"`

	Pruned     []string `json:"-"` // removed images; it cannot be restored without them
	Unreadable string   `json:"-"` // why its metadata cannot be read, or is not understood

	volume string
	images []string // that the engine has
	helper string   // image
}

// Containers returns all container names.
func (c Contents) Containers() []string {
	list := slices.Clone(c.Others)
	for _, nodes := range c.Clusters {
		list = append(list, nodes...)
	}
	slices.Sort(list)
	return list
}

// container is a container in a snapshot.
type container struct {
	docker.Blueprint
	Ref string // image of its file system
}

// Snapshots manages the snapshots of a lab.
type Snapshots struct {
	lab    string
	docker *docker.Docker
}

// New returns the snapshots of a lab.
func New(labName string, d *docker.Docker) *Snapshots { return &Snapshots{lab: labName, docker: d} }

// images returns the repository of the images; a tag is "GENERATION-N".
func (s *Snapshots) images() string { return "lab-" + s.lab + "-snapshot" }

// Save saves containers, which are paused for a few seconds while their volumes are copied. An existing snapshot of the
// same name is an error with code "exists"; with replace, it is removed once the new one is complete. It takes ten
// minutes at most.
func (s *Snapshots) Save(ctx context.Context, name string, replace bool, c Contents, p lab.Progress) (saved Snapshot, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, workTimeout, errTimeout)
	defer cancel()
	have, err := s.tidy(ctx)
	if err != nil {
		return saved, err
	}
	if !replace && slices.ContainsFunc(have, func(o Snapshot) bool { return o.Name == name }) {
		return saved, &lab.Error{Exit: lab.ExitInvalid, Code: "exists", Message: "there is a snapshot " + name + " already", Cure: "another name, or --replace"}
	}
	blueprints, err := s.docker.Blueprints(ctx, c.Containers()...)
	if err != nil {
		return saved, err
	}
	helping := slices.IndexFunc(blueprints, hasTools)
	if helping < 0 {
		return saved, errors.New("snapshot: no container has the tools for it")
	}
	generation := strings.ToLower(rand.Text()[:10])
	saved = Snapshot{Format: format, Name: name, Taken: time.Now().UTC(), Contents: c, volume: s.images() + "-" + generation}
	for i, b := range blueprints {
		saved.Made = append(saved.Made, container{Blueprint: b, Ref: s.images() + ":" + generation + "-" + strconv.Itoa(i)})
	}
	saved.helper = saved.Made[helping].Ref
	defer func() {
		if err != nil {
			clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpLimit)
			defer cancel()
			err = errors.Join(err, s.Clean(clean))
		}
	}()
	if err := s.makeVolume(ctx, saved.volume, map[string]string{labelName: name, labelHelper: saved.helper, labelBase: blueprints[helping].Image}); err != nil {
		return saved, err
	}
	if saved.Bytes, err = s.freeze(ctx, saved, blueprints[helping].Image, p); err != nil {
		return saved, err
	}
	p("saving metadata")
	document, err := json.Marshal(saved)
	if err != nil {
		return saved, err
	}
	h := s.writer(saved.helper, saved.volume)
	h.Stdin = bytes.NewReader(append(document, '\n'))
	if _, err := s.help(ctx, h, writeScript, saved.volume); err != nil {
		return saved, err
	}
	for _, o := range have {
		if o.Name == name {
			if err := s.remove(ctx, o); err != nil {
				return saved, err
			}
		}
	}
	return saved, nil
}

// hasTools reports whether a container is a node, whose image has bash, tar and coreutils.
func hasTools(b docker.Blueprint) bool {
	labels, _ := b.Config["Labels"].(map[string]any)
	role, _ := labels["io.x-k8s.kind.role"].(string)
	return role == "control-plane"
}

// freeze copies file systems and volumes of paused containers and returns their size in bytes.
func (s *Snapshots) freeze(ctx context.Context, to Snapshot, image string, p lab.Progress) (size int64, err error) {
	h := s.writer(image, to.volume)
	var jobs []string
	for i, m := range to.Made {
		for j, v := range m.Volumes {
			h.Volumes = append(h.Volumes, v.Name)
			jobs = append(jobs, v.Name, within(to.volume, i, j))
		}
	}
	defer func() {
		wake, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpLimit)
		defer cancel()
		err = errors.Join(err, s.each(to.Made, func(m container) error {
			if !m.Running || m.Paused {
				return nil
			}
			if err := s.docker.Unpause(wake, m.Name); err != nil && !errors.Is(err, docker.ErrNotPaused) {
				return err
			}
			return nil
		}))
	}()
	p("holding the containers still")
	err = s.each(to.Made, func(m container) error {
		if !m.Running || m.Paused {
			return nil
		}
		return s.docker.Pause(ctx, m.Name)
	})
	if err != nil {
		return 0, err
	}
	p("copying their volumes")
	var group errgroup.Group
	group.Go(func() error {
		out, err := s.help(ctx, h, docker.CopyVolumes, jobs...)
		if err != nil {
			return err
		}
		size, err = strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
		return err
	})
	group.Go(func() error {
		return s.each(to.Made, func(m container) error { return s.docker.Commit(ctx, m.Name, m.Ref) })
	})
	return size, group.Wait()
}

// within returns the path of container n's volume m in a volume, in the scripts' format: volume name, then path.
func within(volume string, n, m int) string { return fmt.Sprintf("%s/%d/%d", volume, n, m) }

// each runs do for all containers concurrently.
func (s *Snapshots) each(list []container, do func(container) error) error {
	var group errgroup.Group
	for _, m := range list {
		group.Go(func() error { return do(m) })
	}
	return group.Wait()
}

// List returns the newest complete snapshot of each name, newest first.
func (s *Snapshots) List(ctx context.Context) ([]Snapshot, error) {
	list, err := s.all(ctx)
	if err != nil {
		return nil, err
	}
	var newest []Snapshot // a killed run may have left replaced ones
	for _, o := range list {
		if !slices.ContainsFunc(newest, func(n Snapshot) bool { return n.Name == o.Name }) {
			newest = append(newest, o)
		}
	}
	return newest, nil
}

// all returns the complete snapshots, replaced ones included, newest first.
func (s *Snapshots) all(ctx context.Context) ([]Snapshot, error) {
	volumes, err := s.volumes(ctx)
	if err != nil {
		return nil, err
	}
	refs, err := s.refs(ctx)
	if err != nil {
		return nil, err
	}
	return s.read(ctx, volumes, refs)
}

// read reads the metadata of volumes. refs are the images of all snapshots.
func (s *Snapshots) read(ctx context.Context, volumes []store, refs []string) ([]Snapshot, error) {
	if len(volumes) == 0 {
		return nil, nil
	}
	tools, err := s.tools(ctx, volumes, refs)
	if err != nil {
		return nil, err
	}
	if tools == "" {
		var list []Snapshot
		for _, v := range volumes {
			if v.snapshot != "" {
				list = append(list, Snapshot{Name: v.snapshot, Pruned: []string{v.helper}, volume: v.name, images: v.images(refs)})
			}
		}
		return list, nil
	}
	h := docker.Helper{Image: tools}
	for _, v := range volumes {
		h.Volumes = append(h.Volumes, v.name)
	}
	out, err := s.help(ctx, h, readScript, h.Volumes...)
	if err != nil {
		return nil, err
	}
	var list []Snapshot
	for line := range strings.Lines(string(out)) {
		volume, document, _ := strings.Cut(strings.TrimSpace(line), " ")
		i := slices.IndexFunc(volumes, func(v store) bool { return v.name == volume })
		if i < 0 {
			return nil, fmt.Errorf("snapshot: a document of volume %q, which was not asked for", volume)
		}
		o := parse(document)
		if o.Unreadable != "" {
			o = Snapshot{Name: volumes[i].snapshot, Unreadable: o.Unreadable}
		}
		o.volume, o.helper, o.images = volume, tools, volumes[i].images(refs)
		for _, m := range o.Made {
			if !slices.Contains(o.images, m.Ref) {
				o.Pruned = append(o.Pruned, m.Ref)
			}
		}
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b Snapshot) int { return cmp.Or(b.Taken.Compare(a.Taken), strings.Compare(a.volume, b.volume)) })
	return list, nil
}

// parse reads encoded metadata.
func parse(document string) (o Snapshot) {
	text, err := base64.StdEncoding.DecodeString(document)
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	switch {
	case err != nil:
		o.Unreadable = "its metadata cannot be read: " + err.Error()
	case o.Format > format:
		o.Unreadable = fmt.Sprintf("it was saved by a newer version of lab, in format %d; this version supports %d", o.Format, format)
	}
	return o
}

// Restorable returns an error for a snapshot without its images or with unreadable metadata.
func (o Snapshot) Restorable() error {
	cure := "lab snapshot rm " + lab.Quote(o.Name) + ", and save another"
	switch {
	case o.Unreadable != "":
		return &lab.Error{
			Exit: lab.ExitFailed, Code: CodeUnreadable, Message: "snapshot " + o.Name + " cannot be restored: " + o.Unreadable, Cure: cure, Details: []string{"the lab was left unchanged"},
		}
	case len(o.Pruned) > 0:
		return &lab.Error{
			Exit: lab.ExitFailed, Code: CodePruned, Message: fmt.Sprintf("snapshot %s cannot be restored: its image %s was removed", o.Name, o.Pruned[0]),
			Cure: cure, Details: []string{"docker image prune --all does that; the lab was left unchanged"},
		}
	}
	return nil
}

// tools returns an image with the tools for the scripts, or "" if all were removed.
func (s *Snapshots) tools(ctx context.Context, volumes []store, refs []string) (string, error) {
	for _, v := range volumes {
		if slices.Contains(refs, v.helper) {
			return v.helper, nil
		}
	}
	for _, v := range volumes {
		if v.base == "" {
			continue
		}
		if _, there, err := s.docker.ImageID(ctx, v.base); err != nil || there {
			return v.base, err
		}
	}
	return "", nil
}

// Remove removes snapshots, and leftovers of killed runs.
func (s *Snapshots) Remove(ctx context.Context, names ...string) error {
	list, err := s.tidy(ctx)
	for _, o := range list {
		if slices.Contains(names, o.Name) {
			err = errors.Join(err, s.remove(ctx, o))
		}
	}
	return err
}
