package service

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"homelab/lab"
	"homelab/lab/docker"
)

// startTimeout is the timeout of a start on a slow and busy machine.
const startTimeout = 2 * time.Minute

// Attempts to create a container whose name was taken meanwhile, and their interval
const (
	conflictTries = 20
	conflictPause = 500 * time.Millisecond
)

// Start creates the service, or recreates its container if image or specification changed (volume and ports are kept),
// starts it, and returns when it is healthy. A running one that is not healthy gets its files again and is restarted.
func (s *Service) Start(ctx context.Context, p lab.Progress, images ...lab.Image) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for tries := conflictTries; ; tries-- {
		err := s.start(ctx, images[0], s.Inputs(images...), p)
		// A killed run's docker command continues: its container takes the name before it can be inspected.
		if tries == 1 || !errors.Is(err, docker.ErrNameTaken) || lab.Sleep(ctx, conflictPause) != nil {
			return err
		}
	}
}

func (s *Service) start(ctx context.Context, image lab.Image, inputs string, p lab.Progress) error {
	st, container, err := s.inspect(ctx)
	if err != nil {
		return err
	}
	had := st.Ports
	if st.Exists && st.Inputs != inputs {
		p("removing the old container")
		if err := s.removeContainer(ctx); err != nil {
			return err
		}
		st, container = State{}, docker.Container{}
	}
	if err := s.bring(ctx, image, inputs, st, container, had, p); err != nil {
		return fmt.Errorf("%s: %w", s.spec.Name, err)
	}
	for n, at := range had { // what a lost record had
		if err := s.savePort(n, at); err != nil {
			return err
		}
	}
	if st, _, err = s.inspect(ctx); err != nil {
		return err
	}
	p("waiting until it answers")
	return s.awaitHealth(ctx, st)
}

// bring makes the container run, with its files, in its networks.
func (s *Service) bring(ctx context.Context, image lab.Image, inputs string, st State, c docker.Container, had map[int]string, p lab.Progress) error {
	name, network := s.Container(), s.first()
	var err error
	switch {
	case !st.Exists:
		if err = s.create(ctx, image, inputs, had, p); err == nil {
			p("starting")
			err = s.docker.Start(ctx, name, network)
		}
	case c.Paused():
		p("unpausing it")
		err = s.docker.Unpause(ctx, name)
	case !st.Running:
		p("starting")
		if err = s.fill(ctx); err == nil { // a run may have been killed after it created the container
			err = s.docker.Start(ctx, name, network)
		}
	case s.health(ctx, st) != nil && ctx.Err() == nil:
		p("restarting it")
		if err = s.fill(ctx); err == nil {
			_, err = s.docker.Output(ctx, nil, "restart", "--time", "5", name)
		}
	}
	if err != nil {
		return err
	}
	if _, c, err = s.inspect(ctx); err != nil {
		return err
	}
	for _, network := range s.apart(c) {
		p("connecting it to " + network)
		if err := s.docker.Rejoin(ctx, name, network, s.aliases()...); err != nil {
			return err
		}
	}
	return nil
}

// create creates volume and container and writes the files. Without them, it must not look complete.
func (s *Service) create(ctx context.Context, image lab.Image, inputs string, had map[int]string, p lab.Progress) error {
	if err := s.docker.LoadImage(ctx, image, p); err != nil {
		return err
	}
	ours, err := s.volume(ctx)
	if err != nil {
		return err
	}
	if !ours && s.spec.Volume != "" {
		args := append([]string{"volume", "create"}, docker.Labels(map[string]string{lab.LabelName: s.lab, lab.LabelPart: s.spec.Name})...)
		if _, err := s.docker.Output(ctx, nil, append(args, s.Container())...); err != nil {
			return err
		}
	}
	var host []int
	for _, port := range s.spec.Ports {
		at, err := portOf(had[port.Container])
		if err == nil && at == 0 {
			at, err = s.ports.Port(s.portName(port.Container), port.Prefer)
		}
		if err != nil {
			return err
		}
		host = append(host, at)
	}
	p("creating the container")
	if _, err := s.docker.Output(ctx, nil, s.createArgs(image.Ref, inputs, host)...); err != nil {
		return err
	}
	if err := s.fill(ctx); err != nil {
		return errors.Join(err, s.removeContainer(context.WithoutCancel(ctx)))
	}
	return nil
}

func (s *Service) portName(container int) string { return PortName(s.spec.Name, container) }

// PortName returns the name under which the port of a part is recorded.
func PortName(part string, container int) string { return part + "/" + strconv.Itoa(container) }

func (s *Service) savePort(container int, at string) error {
	n, err := portOf(at)
	if err != nil || n == 0 {
		return err
	}
	return s.ports.SavePort(s.portName(container), n)
}

// portOf returns the port of an address, 0 for an empty one.
func portOf(at string) (int, error) {
	if at == "" {
		return 0, nil
	}
	_, port, err := net.SplitHostPort(at)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(port)
}

func (s *Service) fill(ctx context.Context) error { return s.Put(ctx, s.spec.Files...) }

// Put writes files. An archive keeps secrets off command lines.
func (s *Service) Put(ctx context.Context, files ...File) error {
	archives := map[string]*bytes.Buffer{}
	writers := map[string]*tar.Writer{}
	made := map[string]bool{}
	for _, f := range files {
		root := "/"
		if v := s.spec.Volume; v != "" && strings.HasPrefix(f.Path, v+"/") {
			root = v
		}
		if writers[root] == nil {
			archives[root] = &bytes.Buffer{}
			writers[root] = tar.NewWriter(archives[root])
		}
		w := writers[root]
		name := strings.TrimPrefix(strings.TrimPrefix(f.Path, root), "/")
		var dirs []string
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			dirs = append(dirs, dir)
		}
		for _, dir := range slices.Backward(dirs) {
			if at := path.Join(root, dir); root == "/" && len(strings.Split(dir, "/")) == 1 || made[at] {
				continue // /etc and the like are the image's
			} else {
				made[at] = true
			}
			if err := w.WriteHeader(&tar.Header{Name: dir + "/", Typeflag: tar.TypeDir, Mode: 0o755, Uid: f.Owner, Gid: f.Owner}); err != nil {
				return err
			}
		}
		if strings.HasSuffix(f.Path, "/") {
			continue
		}
		h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: cmp.Or(f.Mode, 0o600), Uid: f.Owner, Gid: f.Owner, Size: int64(len(f.Data))}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(f.Data); err != nil {
			return err
		}
	}
	for root, w := range writers {
		if err := w.Close(); err != nil {
			return err
		}
		if _, err := s.docker.Output(ctx, archives[root], "cp", "-", s.Container()+":"+root); err != nil {
			return err
		}
	}
	return nil
}

// awaitHealth polls until the service is healthy; docker has no event for it.
func (s *Service) awaitHealth(ctx context.Context, st State) error {
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	looks := 0
	for {
		err := s.health(ctx, st)
		if err == nil {
			return nil
		}
		if looks++; looks%10 == 0 { // every second: still running?
			now, _, cerr := s.inspect(ctx)
			if cerr == nil && !now.Running {
				return s.startError(ctx, "stopped", nil)
			}
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return context.Cause(ctx)
			}
			return s.startError(ctx, "does not answer", err)
		case <-again.C:
		}
	}
}

// startError adds the container's last log lines.
func (s *Service) startError(ctx context.Context, how string, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerLimit)
	defer cancel()
	name := s.Container()
	e := &lab.Error{
		Exit: lab.ExitFailed, Code: "part", Message: "the lab's " + s.spec.Name + " " + how, Err: err,
		Cure: "docker logs " + lab.Quote(name) + " shows details; lab diagnose collects them; lab up retries",
	}
	if out, lerr := s.docker.Logs(ctx, name, 5); lerr == nil && len(out) > 0 {
		e.Details = strings.Split(strings.TrimSpace(string(out)), "\n")
	}
	if s.spec.Volume != "" {
		e.Details = append(e.Details, "its data is kept in the docker volume "+name)
	}
	return e
}
