package snapshot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"homelab/lab"
	"homelab/lab/docker"
)

// Find returns the newest snapshot of a name, or of all if it is empty. A missing one is an error with code
// "no_snapshot".
func (s *Snapshots) Find(ctx context.Context, name string) (Snapshot, error) {
	list, err := s.List(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	for _, o := range list {
		if name == "" && o.Restorable() == nil || o.Name == name {
			return o, nil
		}
	}
	e := &lab.Error{Exit: lab.ExitInvalid, Code: CodeNone, Message: fmt.Sprintf("lab %s has no snapshot %q", s.lab, name), Cure: "lab snapshot save makes one"}
	if name == "" {
		e.Message = "lab " + s.lab + " has no snapshot"
	}
	if len(list) > 0 {
		e.Cure = "there are: " + strings.Join(names(list), ", ")
	}
	return Snapshot{}, e
}

// Codes of errors.
const (
	CodeNone       = "no_snapshot"
	CodePruned     = "snapshot_image"
	CodeUnreadable = "snapshot_unreadable"
)

func names(list []Snapshot) []string {
	var names []string
	for _, o := range list {
		names = append(names, o.Name)
	}
	return names
}

// Stage copies a snapshot's volumes while the lab keeps running. It needs most of the space and time, ten minutes at
// most, before anything is lost.
func (s *Snapshots) Stage(ctx context.Context, o Snapshot, p lab.Progress) error {
	ctx, cancel := context.WithTimeoutCause(ctx, workTimeout, errTimeout)
	defer cancel()
	if err := s.unstage(ctx); err != nil {
		return err
	}
	if err := o.Restorable(); err != nil {
		return err
	}
	p("unpacking snapshot " + o.Name)
	if err := s.makeVolume(ctx, s.stage(), nil); err != nil {
		return err
	}
	var jobs []string
	for i, m := range o.Made {
		for j := range m.Volumes {
			jobs = append(jobs, within(o.volume, i, j), within(s.stage(), i, j))
		}
	}
	if _, err := s.help(ctx, s.writer(o.helper, o.volume, s.stage()), docker.CopyVolumes, jobs...); err != nil {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpLimit)
		defer cancel()
		return errors.Join(err, s.unstage(clean))
	}
	return nil
}

// unstage deletes staged volumes, and the helper of a killed run.
func (s *Snapshots) unstage(ctx context.Context) error {
	if err := s.stopHelper(ctx); err != nil {
		return err
	}
	return s.removeVolume(ctx, s.stage())
}

// Place recreates the containers, none of which may exist, with the staged volumes, and returns their ids by name. It
// starts none.
func (s *Snapshots) Place(ctx context.Context, o Snapshot, p lab.Progress) (map[string]string, error) {
	if _, err := s.docker.Output(ctx, nil, "volume", "inspect", s.stage()); err != nil {
		return nil, fmt.Errorf("snapshot %s is not unpacked: %w", o.Name, err)
	}
	p("making the containers")
	var group errgroup.Group
	list := make([]string, len(o.Made))
	for i, m := range o.Made {
		group.Go(func() (err error) {
			for _, v := range m.Volumes {
				if !v.Anonymous {
					if err := s.makeNamed(ctx, v); err != nil {
						return err
					}
				}
			}
			list[i], err = s.docker.Make(ctx, withFreePort(m.Blueprint), m.Ref)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	now, err := s.docker.Blueprints(ctx, list...)
	if err != nil {
		return nil, err
	}
	h := s.writer(o.helper, s.stage())
	var jobs []string
	ids := map[string]string{}
	for i, m := range o.Made {
		ids[m.Name] = list[i]
		for j, v := range m.Volumes {
			k := slices.IndexFunc(now[i].Volumes, func(n docker.Volume) bool { return n.Destination == v.Destination })
			if k < 0 {
				return nil, fmt.Errorf("snapshot %s: container %s has no volume at %s", o.Name, m.Name, v.Destination)
			}
			h.Volumes = append(h.Volumes, now[i].Volumes[k].Name)
			jobs = append(jobs, within(s.stage(), i, j), now[i].Volumes[k].Name)
		}
	}
	p("filling their volumes")
	if _, err := s.help(ctx, h, moveScript, jobs...); err != nil {
		return nil, err
	}
	return ids, s.removeVolume(ctx, s.stage())
}

// makeNamed creates a named volume with its labels.
func (s *Snapshots) makeNamed(ctx context.Context, v docker.Volume) error {
	_, err := s.docker.Output(ctx, nil, append(append([]string{"volume", "create"}, docker.Labels(v.Labels)...), v.Name)...)
	return err
}

// apiPort is published on a random port, which may change.
const apiPort = "6443/tcp"

// withFreePort moves the API's host port if it is occupied.
func withFreePort(b docker.Blueprint) docker.Blueprint {
	at := b.Publishes()[apiPort]
	if at == "" {
		return b
	}
	if free := listen(at); free != "" {
		return b
	}
	host, _, _ := net.SplitHostPort(at)
	if free := listen(net.JoinHostPort(host, "0")); free != "" {
		return b.WithPort(apiPort, free)
	}
	return b
}

// listen returns an address to listen on, or "" if at is occupied.
func listen(at string) string {
	l, err := net.Listen("tcp", at)
	if err != nil {
		return ""
	}
	defer l.Close()
	return l.Addr().String()
}

// Start starts the containers in the order of their former addresses, so that they get them again. The pods that
// kubelet creates from files depend on that.
func (s *Snapshots) Start(ctx context.Context, o Snapshot, network string) error {
	list := slices.Clone(o.Made)
	slices.SortStableFunc(list, func(a, b container) int {
		x, _ := netip.ParseAddr(a.Address) // without one if it did not run: first
		y, _ := netip.ParseAddr(b.Address)
		return x.Compare(y)
	})
	for _, m := range list {
		if m.Running {
			if err := s.docker.Start(ctx, m.Name, network); err != nil {
				return err
			}
		}
	}
	return nil
}
