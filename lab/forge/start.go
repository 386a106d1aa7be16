package forge

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/gate"
)

// startTimeout is the timeout of a start on a slow and busy machine.
const startTimeout = 2 * time.Minute

// Spec is what a forge consists of.
type Spec struct {
	Image  lab.Image // Gitea's
	Gate   lab.Image // holds the program in front of it, see package gate
	Writer bool      // an engine commits to the repositories: it gets an account that may
	Runner Guest     // zero if there is none
}

// Start creates the forge, or recreates its container if image or settings changed (the volume is kept), starts it, and
// returns when the admin can access the estate's repository, all repositories are private, and the engines' accounts
// exist. It listens on 127.0.0.1:port; port 0 selects the previous port, or a free one.
func (g *Gitea) Start(ctx context.Context, spec Spec, port int, p lab.Progress) error {
	if p == nil {
		p = func(string) {}
	}
	if g.creds.Keys == (Keys{}) {
		return errors.New("forge: it has no keys") // lab up renews former credentials
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for tries := conflictTries; ; tries-- {
		err := g.start(ctx, spec, port, p)
		// A killed run's docker command continues: its container takes the name before it can be inspected.
		if tries == 1 || !errors.Is(err, docker.ErrNameTaken) || lab.Sleep(ctx, conflictPause) != nil {
			return err
		}
	}
}

// Attempts to create a container whose name was taken meanwhile, and their interval
const (
	conflictTries = 20
	conflictPause = 500 * time.Millisecond
)

func (g *Gitea) start(ctx context.Context, spec Spec, port int, p lab.Progress) error {
	s, container, err := g.inspect(ctx)
	if err != nil {
		return err
	}
	had, err := g.publishedPort(ctx, s)
	if err != nil {
		return err
	}
	if port == 0 {
		port = had
	}
	if s.Exists && (s.Inputs != g.Inputs(spec) || port != had) {
		p("removing the old container")
		if _, err := g.docker.Output(ctx, nil, "rm", "--force", g.name); err != nil && !docker.NotFound(err) {
			return fmt.Errorf("forge: %w", err)
		}
		s, container = State{}, docker.Container{}
	}
	switch {
	case !s.Exists:
		err = g.create(ctx, spec, port, p)
	case !s.Running && !container.Paused():
		err = g.fill(ctx, spec) // a run may have been killed after it created the container
	}
	network := lab.NetworkName(g.lab)
	if err == nil {
		switch {
		case container.Paused():
			p("unpausing it")
			err = g.docker.Unpause(ctx, g.name)
		case !s.Running:
			p("starting")
			err = g.docker.Start(ctx, g.name, network)
		}
	}
	if _, connected := container.Addresses[network]; err == nil && s.Exists && !connected {
		p("connecting it to " + network)
		err = g.docker.Connect(ctx, g.name, network)
	}
	if err == nil {
		err = g.join(ctx, spec.Runner.Network, container)
	}
	if err != nil {
		return fmt.Errorf("forge: %w", err)
	}
	if s, err = g.running(ctx); err != nil {
		return err
	}
	if err := g.awaitHealth(ctx, s); err != nil {
		return err
	}
	p("preparing the repository")
	if err := g.prepare(ctx, s); err != nil {
		return err
	}
	if err := g.seclude(ctx, s, spec.Writer); err != nil {
		return err
	}
	if err := g.admit(ctx, s); err != nil {
		return err
	}
	return g.receive(ctx, s, spec)
}

// create creates volume and container and writes the settings. A container without settings cannot run.
func (g *Gitea) create(ctx context.Context, spec Spec, port int, p lab.Progress) error {
	if err := g.docker.LoadImage(ctx, spec.Image, p); err != nil {
		return err
	}
	labels := map[string]string{lab.LabelName: g.lab, lab.LabelPart: "forge", lab.LabelInputs: g.Inputs(spec)}
	ours, err := g.volume(ctx)
	if err != nil {
		return err
	}
	if !ours {
		args := append([]string{"volume", "create"}, docker.Labels(map[string]string{lab.LabelName: g.lab, lab.LabelPart: "forge"})...)
		if _, err := g.docker.Output(ctx, nil, append(args, g.name)...); err != nil {
			return err
		}
	}
	if port == 0 {
		if port, err = freePort(ctx); err != nil {
			return err
		}
	}
	p("creating the container")
	args := append([]string{"create", "--name", g.name, "--hostname", g.name, "--network", lab.NetworkName(g.lab)}, docker.Labels(labels)...)
	args = append(args,
		"--publish", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))+":"+httpPort, "--volume", g.name+":"+dataDir,
		"--restart", "unless-stopped", // survives reboots
		"--user", account+":"+account, "--security-opt", "no-new-privileges", "--cap-drop", "ALL",
		// Bypass the image's entrypoint, which starts an SSH server and a supervisor and requires root.
		"--entrypoint", gateProgram, spec.Image.Ref, "-listen", ":"+httpPort, "-to", "127.0.0.1:"+innerPort, "-hosts", "localhost,127.0.0.1,"+g.name)
	if spec.Runner != (Guest{}) {
		args = append(args, "-guests", dataDir+"/"+guestsFile)
	}
	args = append(args, "--", program, "--work-path", workPath, "--config", appINI, "web")
	if _, err := g.docker.Output(ctx, nil, args...); err != nil {
		return err
	}
	if err := g.fill(ctx, spec); err != nil { // without settings, it must not look complete
		_, rmErr := g.docker.Output(context.WithoutCancel(ctx), nil, "rm", "--force", g.name)
		return errors.Join(err, rmErr)
	}
	return nil
}

// fill copies the gate into the container, and writes the settings to the volume.
func (g *Gitea) fill(ctx context.Context, spec Spec) error {
	door, err := docker.FileIn(spec.Gate, gate.Program)
	if err != nil {
		return err
	}
	id, err := strconv.Atoi(account)
	if err != nil {
		return err
	}
	dir := func(name string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o700, Uid: id, Gid: id}
	}
	for _, to := range []struct {
		dir     string
		headers []tar.Header // the last one's content follows
		content []byte
	}{
		{"/", []tar.Header{{Name: gateProgram[1:], Mode: 0o755}}, door},
		// An archive keeps secrets off command lines. git is the home of the user git.
		{dataDir, []tar.Header{dir("git/"), dir("gitea/"), dir("gitea/conf/"), {Name: "gitea/conf/app.ini", Mode: 0o600, Uid: id, Gid: id}}, []byte(g.settings())},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for i, h := range to.headers {
			if i == len(to.headers)-1 {
				h.Typeflag, h.Size = tar.TypeReg, int64(len(to.content))
			}
			if err := w.WriteHeader(&h); err != nil {
				return err
			}
		}
		_, err := w.Write(to.content)
		if err := errors.Join(err, w.Close()); err != nil {
			return err
		}
		if _, err := g.docker.Output(ctx, &b, "cp", "-", g.name+":"+to.dir); err != nil {
			return err
		}
	}
	return nil
}

// volume reports whether the lab's volume exists; a foreign one of its name is an error.
func (g *Gitea) volume(ctx context.Context) (bool, error) {
	out, err := g.docker.Output(ctx, nil, "volume", "inspect", "--format", `{{index .Labels "`+lab.LabelName+`"}}`, g.name)
	if docker.NotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("forge: %w", err)
	}
	if strings.TrimSpace(string(out)) != g.lab {
		return false, &lab.Error{
			Exit: lab.ExitFailed, Code: "not_ours", Message: "docker volume " + g.name + " exists and was not created by lab",
			Cure: "choose another --name, or remove it: docker volume rm " + lab.Quote(g.name),
		}
	}
	return true, nil
}

// publishedPort returns the host port that the container was created with, or 0.
func (g *Gitea) publishedPort(ctx context.Context, s State) (int, error) {
	if !s.Exists {
		return 0, nil
	}
	// From HostConfig: a stopped container publishes nothing.
	out, err := g.docker.Output(ctx, nil, "container", "inspect", "--format", `{{(index (index .HostConfig.PortBindings "`+httpPort+`/tcp") 0).HostPort}}`, g.name)
	if err != nil {
		return 0, fmt.Errorf("forge: %w", err)
	}
	return strconv.Atoi(strings.TrimSpace(string(out)))
}

func freePort(ctx context.Context) (int, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// awaitHealth polls until Gitea answers; docker has no event for it.
func (g *Gitea) awaitHealth(ctx context.Context, s State) error {
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	looks := 0
	for {
		err := g.health(ctx, s)
		if err == nil {
			return nil
		}
		if looks++; looks%20 == 0 { // every second: still running?
			now, cerr := g.container(ctx)
			if cerr == nil && !now.Running {
				return g.startError(ctx, "stopped", nil)
			}
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return context.Cause(ctx)
			}
			return g.startError(ctx, "does not answer", err)
		case <-again.C:
		}
	}
}

// health returns nil if Gitea answers in time.
func (g *Gitea) health(ctx context.Context, s State) error {
	ctx, cancel := context.WithTimeout(ctx, min(answerLimit, g.patience))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.HostURL+"/api/healthz", nil)
	if err != nil {
		return err
	}
	resp, err := g.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", req.URL, resp.Status)
	}
	return nil
}

// startError adds Gitea's last log lines.
func (g *Gitea) startError(ctx context.Context, how string, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainLimit)
	defer cancel()
	e := &lab.Error{
		Exit: lab.ExitFailed, Code: "forge", Message: "the lab's Git server " + how, Err: err,
		Cure: "docker logs " + lab.Quote(g.name) + " shows details; lab diagnose collects them; lab up retries",
	}
	if out, lerr := g.docker.Output(ctx, nil, "logs", "--tail", "5", g.name); lerr == nil && len(out) > 0 {
		e.Details = strings.Split(strings.TrimSpace(string(out)), "\n")
	}
	e.Details = append(e.Details, "its data is kept in the docker volume "+g.name)
	return e
}
