package forge

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"homelab/lab"
	"homelab/lab/docker"

	"code.gitea.io/sdk/gitea"
)

// startTimeout is the timeout of a start on a slow and busy machine.
const startTimeout = 2 * time.Minute

// Start creates the forge, or recreates its container if image or settings changed (the volume is kept), starts it, and
// returns when the admin can access the estate's repository. It listens on 127.0.0.1:port; port 0 selects the previous
// port, or a free one.
func (g *Gitea) Start(ctx context.Context, image lab.Image, port int, p lab.Progress) error {
	if p == nil {
		p = func(string) {}
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for tries := conflictTries; ; tries-- {
		err := g.start(ctx, image, port, p)
		// A killed run's docker command continues: its container takes the name before it can be inspected.
		if tries == 1 || !docker.Reports(err, "is already in use by container") || lab.Sleep(ctx, conflictPause) != nil {
			return err
		}
	}
}

// Attempts to create a container whose name was taken meanwhile, and their interval
const (
	conflictTries = 20
	conflictPause = 500 * time.Millisecond
)

func (g *Gitea) start(ctx context.Context, image lab.Image, port int, p lab.Progress) error {
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
	if s.Exists && (s.Inputs != g.Inputs(image) || port != had) {
		p("removing the old container")
		if _, err := g.docker.Output(ctx, nil, "rm", "--force", g.name); err != nil && !docker.NotFound(err) {
			return fmt.Errorf("forge: %w", err)
		}
		s, container = State{}, docker.Container{}
	}
	switch {
	case !s.Exists:
		err = g.create(ctx, image, port, p)
	case !s.Running && !container.Paused():
		err = g.fill(ctx) // a run may have been killed after it created the container
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
	return g.prepare(ctx, s)
}

// create creates volume and container and writes the settings. A container without settings cannot run.
func (g *Gitea) create(ctx context.Context, image lab.Image, port int, p lab.Progress) error {
	if err := g.docker.LoadImage(ctx, image, p); err != nil {
		return err
	}
	labels := map[string]string{lab.LabelName: g.lab, lab.LabelPart: "forge", lab.LabelInputs: g.Inputs(image)}
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
		"--entrypoint", program, image.Ref, "--work-path", workPath, "--config", appINI, "web")
	if _, err := g.docker.Output(ctx, nil, args...); err != nil {
		return err
	}
	if err := g.fill(ctx); err != nil { // without settings, it must not look complete
		_, rmErr := g.docker.Output(context.WithoutCancel(ctx), nil, "rm", "--force", g.name)
		return errors.Join(err, rmErr)
	}
	return nil
}

// fill writes the settings to the volume.
func (g *Gitea) fill(ctx context.Context) error {
	files, err := g.volumeFiles()
	if err == nil {
		_, err = g.docker.Output(ctx, files, "cp", "-", g.name+":"+dataDir)
	}
	return err
}

// volumeFiles returns the initial content of the volume as an archive, which keeps secrets off command lines.
func (g *Gitea) volumeFiles() (*bytes.Buffer, error) {
	id, err := strconv.Atoi(account)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	text := g.settings()
	for _, h := range []tar.Header{
		{Name: "git/", Typeflag: tar.TypeDir, Mode: 0o700}, // home of the user git
		{Name: "gitea/", Typeflag: tar.TypeDir, Mode: 0o700},
		{Name: "gitea/conf/", Typeflag: tar.TypeDir, Mode: 0o700},
		{Name: "gitea/conf/app.ini", Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(text))},
	} {
		h.Uid, h.Gid = id, id
		if err := w.WriteHeader(&h); err != nil {
			return nil, err
		}
	}
	_, err = w.Write([]byte(text))
	return &b, errors.Join(err, w.Close())
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
			Cure: "choose another --name, or remove it: docker volume rm " + g.name,
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
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: answerLimit}
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	looks := 0
	for {
		err := health(ctx, client, s.HostURL)
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

func health(ctx context.Context, client *http.Client, base string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/api/healthz", nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerLimit)
	defer cancel()
	e := &lab.Error{
		Exit: lab.ExitFailed, Code: "forge", Message: "the lab's Git server " + how, Err: err,
		Cure: "docker logs " + g.name + " shows details; lab diagnose collects them; lab up retries",
	}
	if out, lerr := g.docker.Output(ctx, nil, "logs", "--tail", "5", g.name); lerr == nil && len(out) > 0 {
		e.Details = strings.Split(strings.TrimSpace(string(out)), "\n")
	}
	e.Details = append(e.Details, "its data is kept in the docker volume "+g.name)
	return e
}

// prepare creates admin and repository, if missing.
func (g *Gitea) prepare(ctx context.Context, s State) error {
	api, err := g.api(ctx, s)
	if err != nil {
		return err
	}
	_, resp, err := api.GetRepo(g.creds.User, g.repository)
	if resp != nil && resp.StatusCode == http.StatusUnauthorized {
		if err := g.ensureAdmin(ctx, s); err != nil {
			return err
		}
		_, resp, err = api.GetRepo(g.creds.User, g.repository)
	}
	if resp != nil && resp.StatusCode == http.StatusNotFound {
		_, _, err = api.CreateRepo(gitea.CreateRepoOption{Name: g.repository, DefaultBranch: g.branch, Description: g.describes})
	}
	if err != nil {
		return fmt.Errorf("repository of the forge: %w", err)
	}
	return nil
}

var tokenPattern = regexp.MustCompile(`\b[0-9a-f]{40}\b`)

// ensureAdmin sets the admin's password. Gitea's commands take a password only on the command line, visible to every
// local user: the account is created with a random one and a temporary token, and the password is set through the API.
func (g *Gitea) ensureAdmin(ctx context.Context, s State) error {
	name := "lab-" + rand.Text()[:8]
	admin := func(args ...string) (string, error) {
		command := append([]string{program, "--work-path", workPath, "--config", appINI, "admin", "user"}, args...)
		out, err := g.docker.Exec(ctx, g.name, nil, command...)
		if err != nil {
			return "", err
		}
		token := tokenPattern.FindString(string(out))
		if token == "" {
			return "", errors.New("gitea admin user " + args[0] + " gave no token")
		}
		return token, nil
	}
	token, err := admin("create", "--admin", "--username", g.creds.User, "--email", g.creds.User+"@"+authorHost, "--random-password",
		"--must-change-password=false", "--access-token", "--access-token-name", name)
	if docker.Reports(err, "already exists") { // with another password: the lab's files were lost
		token, err = admin("generate-access-token", "--username", g.creds.User, "--token-name", name, "--scopes", "all", "--raw")
	}
	if err != nil {
		return fmt.Errorf("admin of the forge: %w", err)
	}
	api, err := gitea.NewClient(s.HostURL, gitea.SetContext(ctx), gitea.SetToken(token), gitea.SetGiteaVersion(""), gitea.SetUserAgent("lab"))
	if err != nil {
		return err
	}
	no := false
	_, err = api.AdminEditUser(g.creds.User, gitea.EditUserOption{LoginName: g.creds.User, Password: g.creds.Password, MustChangePassword: &no})
	if err != nil {
		return fmt.Errorf("admin of the forge: %w", err)
	}
	if api, err = g.api(ctx, s); err != nil { // a token cannot delete tokens
		return err
	}
	if _, err := api.DeleteAccessToken(name); err != nil {
		return fmt.Errorf("admin of the forge: %w", err)
	}
	return nil
}
