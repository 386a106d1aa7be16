package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/gitfiles"
	"homelab/lab/lint"
	"homelab/lab/render"
	"homelab/lab/runner"
	"homelab/lab/runner/job"
	"homelab/lab/runner/supervise"
	"homelab/lab/runner/work"
	"homelab/lab/ui"
	"homelab/lab/workspace"
)

// insideCheck is the first argument of lab for one check in the worker. Like those of package runner it is not a command of lab: nothing there has a terminal, an estate or a lab.
const insideCheck = "runner-check"

// inside returns what the program does in a container of the runner.
func (p *program) inside(args []string) (func(context.Context) lab.Exit, bool) {
	if len(args) != 3 {
		return nil, false
	}
	do, is := map[string]func(context.Context, string) error{
		runner.Supervises: p.runnerSupervisor, runner.Works: p.runnerWorker, runner.Answers: p.runnerReady, insideCheck: p.runnerCheck,
	}[args[1]]
	return func(ctx context.Context) lab.Exit {
		err := do(ctx, args[2])
		if err == nil || errors.Is(err, context.Canceled) {
			return lab.ExitDone
		}
		if shown := (exitError{}); errors.As(err, &shown) {
			return shown.exit
		}
		return p.ui.Error(err)
	}, is
}

const (
	runnerEvery = 30 * time.Second // between looks, if the forge does not call
	runnerPause = 3 * time.Second  // a worker's restart
	runnerSlack = 20 * time.Second
	runnerGrace = 2 * time.Second
)

// runnerSupervisor is the supervisor's program. Its log is `lab runner log`.
func (p *program) runnerSupervisor(ctx context.Context, text string) error {
	var at runner.Place
	if err := json.Unmarshal([]byte(text), &at); err != nil {
		return err
	}
	data, err := os.ReadFile(runner.SecretsFile)
	if err != nil {
		return err
	}
	var secrets runner.Secrets
	if err := json.Unmarshal(data, &secrets); err != nil {
		return err
	}
	forge := supervise.NewGitea(secrets.URL, secrets.Owner, secrets.Name, secrets.User, secrets.Password)
	log := slog.New(slog.NewJSONHandler(p.env.Err, nil))
	hook, wake := supervise.Hook(secrets.Webhook)
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf(":%d", runner.Port))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: hook, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the webhook", "error", err)
		}
	}()
	s := &supervise.Supervisor{
		Reader: forge, Writer: forge, Worker: work.Client{Socket: runner.Socket, Slack: runnerSlack}, Order: work.Order{Lab: at.Lab, Engine: at.Engine, Version: at.Version},
		Describe: describeDiff, Log: log, Every: runnerEvery, Pause: runnerPause,
	}
	return s.Run(ctx, wake)
}

// describeDiff reads the JSON of lab diff and renders its Markdown here, as the worker that it comes from is not trusted.
func describeDiff(text []byte) (supervise.Described, error) {
	var res ui.DiffResult
	if err := json.Unmarshal(text, &res); err != nil {
		return supervise.Described{}, err
	}
	for i := range res.Changes {
		short(res.Changes[i].Applications, res.Changes[i].Addon)
	}
	for i := range res.Unknown {
		short(res.Unknown[i].Applications, res.Unknown[i].Addon)
	}
	return supervise.Described{Markdown: ui.DiffMarkdown(res, "lab diff"), Summary: res.Summary(), Unknown: res.Fails()}, nil
}

func short(apps []ui.DiffApplication, addon string) {
	for i, a := range apps {
		apps[i] = ui.ShortApplication(a.Name, a.Cluster, lab.ApplicationName(a.Cluster, addon))
	}
}

// runnerWorker is the worker's program.
func (p *program) runnerWorker(ctx context.Context, _ string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	w := &work.Worker{Program: []string{self, insideCheck}, Dir: runner.WorkDir, Env: []string{"XDG_CACHE_HOME=" + p.env.Getenv("XDG_CACHE_HOME")}, Grace: runnerGrace}
	return w.Serve(ctx, runner.Socket)
}

// runnerReady returns nil if the worker answers, and in the supervisor's container its web server, too.
func (p *program) runnerReady(ctx context.Context, _ string) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", runner.Socket)
	if err == nil {
		err = c.Close()
	}
	if _, none := os.Stat(runner.SecretsFile); err != nil || none != nil {
		return err
	}
	c, err = (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", runner.Port))
	if err != nil {
		return err
	}
	return c.Close()
}

// runnerCheck runs one check on files that git has packed. It is offline, and writes nothing but its output.
func (p *program) runnerCheck(ctx context.Context, text string) error {
	var task work.Task
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		return err
	}
	pack, err := os.Open(task.Pack)
	if err != nil {
		return err
	}
	defer pack.Close()
	clone, err := gitfiles.OfPack(pack)
	if err != nil {
		return err
	}
	at := func(title, commit string) (*workspace.Workspace, error) {
		files, err := clone.Files(commit)
		if err != nil {
			return nil, err
		}
		ws, err := workspace.Open(workspace.Options{Name: task.Lab, Builtin: true, Embedded: files, Engine: lab.EngineType(task.Engine), Version: task.Version})
		if err != nil {
			return nil, err
		}
		return ws.ReadingAs(files, workspace.Revision{Folder: ".", Name: title, Commit: commit}), nil
	}
	head, err := at("the head", task.Head)
	if err != nil {
		return err
	}
	from := origin{images: imagesFlag.Value}
	switch task.Check.Kind {
	case job.Lint:
		return p.lint(ctx, head, lintOptions{Selection: lint.Selection{}, origin: from, sarif: true})
	case job.Diff:
		base, err := at("the merge base", task.Base)
		if err != nil {
			return err
		}
		res, err := p.between(ctx, base, head, diffOptions{origin: from})
		if err != nil {
			return err
		}
		var text bytes.Buffer
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(false)
		err = enc.Encode(res)
		p.ui.Raw(text.String())
		return err
	case job.Render:
		return p.checkRender(ctx, head, from)
	}
	files := head.Estate.FS
	source := render.Source{FS: files, Source: appset.Source{Path: task.Check.Path}, Budget: render.NewBudget()}
	if !render.HasFolder(files, task.Check.Path) || render.TypeOf(files, source.Source) != render.Kustomize {
		return &lab.Error{Exit: lab.ExitInvalid, Code: "no_kustomization", Message: "no kustomization in " + task.Check.Path, Cure: "correct the path in " + job.File + " of the base branch"}
	}
	docs, err := render.Render(source)
	if known := new(render.Error); errors.As(err, &known) {
		return &lab.Error{Exit: lab.ExitFailed, Code: "not_rendered", Message: "the kustomization cannot be built", Problems: lab.Problems{known.Problem}}
	}
	if err != nil {
		return err
	}
	p.ui.Raw(ui.Count(len(docs), "object"))
	return nil
}

// checkRender renders everything.
func (p *program) checkRender(ctx context.Context, ws *workspace.Workspace, from origin) error {
	est, apps, err := p.model(ctx, ws, from)
	if err != nil {
		return err
	}
	objects, problems := 0, lab.Problems(nil)
	for _, app := range apps {
		list, missing := app.Objects()
		objects += len(list)
		problems = append(problems, missing...)
	}
	for _, set := range est.UnknownSets {
		problems = append(problems, unknownSet(set))
	}
	if len(problems) > 0 {
		return &lab.Error{Exit: lab.ExitFailed, Code: "not_rendered", Message: "not everything can be rendered", Problems: problems}
	}
	p.ui.Raw(fmt.Sprintf("%s of %s", ui.Count(objects, "object"), ui.Count(len(apps), "application")))
	return nil
}
