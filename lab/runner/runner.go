package runner

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/service"
)

// Names of the parts.
const (
	Name       = "runner"
	WorkerName = "runner-worker"
)

// repository is that of the image.
const repository = "lab-runner"

// Users of the containers
const (
	workerUser     = 65532
	supervisorUser = 65533
)

// Limits of the containers. A check has less: see package job.
const (
	workerMemory     = 1280 << 20
	workerProcesses  = 128 // threads
	workerCPUs       = 1
	workerFiles      = "256m"
	supervisorMemory = 256 << 20
)

// Image is the image of both containers: lab itself, what it needs to start, and charts. It has no shell.
type Image struct {
	Program string            // file; a Linux program
	Charts  map[string][]byte // files of CacheDir
}

// ref returns the image's name, which its content determines.
func (i Image) ref() (string, error) {
	f, err := os.Open(i.Program)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	for _, name := range slices.Sorted(keys(i.Charts)) {
		of := sha256.Sum256(i.Charts[name])
		fmt.Fprintf(sum, "%s %x\n", name, of)
	}
	const short = 12
	return repository + ":" + hex.EncodeToString(sum.Sum(nil))[:short], nil
}

func keys(m map[string][]byte) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// load makes the image in the container engine, if it is not there.
func (i Image) load(ctx context.Context, d *docker.Docker, p lab.Progress) (string, error) {
	ref, err := i.ref()
	if err != nil {
		return "", err
	}
	if _, found, err := d.ImageID(ctx, ref); found || err != nil {
		return ref, err
	}
	files, err := needed(i.Program)
	if err != nil {
		return "", err
	}
	p("loading " + ref)
	r, w := io.Pipe()
	go func() { w.CloseWithError(i.write(w, files)) }()
	_, err = d.Output(ctx, r, "import", "--change", "ENV XDG_CACHE_HOME="+CacheDir, "--message", "lab", "-", ref)
	return ref, errors.Join(err, r.Close())
}

// write writes the image's only layer.
func (i Image) write(to io.Writer, files []string) error {
	w := tar.NewWriter(to)
	dir := func(name string, mode int64, owner int) error {
		return w.WriteHeader(&tar.Header{Name: name + "/", Typeflag: tar.TypeDir, Mode: mode, Uid: owner, Gid: owner})
	}
	err := errors.Join(dir("exchange", 0o711, workerUser), dir("secrets", 0o700, supervisorUser), dir("tmp", 0o1777, 0), dir("cache", 0o755, 0))
	for _, name := range append(files, i.Program) {
		to := strings.TrimPrefix(name, "/")
		if name == i.Program {
			to = program[1:]
		}
		err = errors.Join(err, copied(w, name, to))
	}
	for _, name := range slices.Sorted(keys(i.Charts)) {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Name: "cache/" + name, Typeflag: tar.TypeReg, Mode: 0o444, Size: int64(len(i.Charts[name]))}))
		_, werr := w.Write(i.Charts[name])
		err = errors.Join(err, werr)
	}
	return errors.Join(err, w.Close())
}

func copied(w *tar.Writer, from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: to, Typeflag: tar.TypeReg, Mode: 0o555, Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}

// Runner is the worker and the supervisor of a lab.
type Runner struct {
	worker, supervisor *service.Service

	lab    string
	docker *docker.Docker
	image  func(ctx context.Context) (Image, error)
	forge  string // container
}

// Options are what both containers need.
type Options struct {
	Place   Place
	Secrets Secrets
	Image   func(ctx context.Context) (Image, error)
	Forge   string // container
}

// Network returns the name of the supervisor's network.
func Network(labName string) string { return lab.PartName(labName, Name) }

// Hook returns the address that the forge calls.
func Hook(labName string) string {
	return "http://" + lab.PartName(labName, Name) + ":" + strconv.Itoa(Port) + "/hook"
}

// New returns the runner of a lab. It makes no requests.
func New(labName string, d *docker.Docker, ports service.Ports, o Options) *Runner {
	place, _ := json.Marshal(o.Place) // cannot fail: strings
	secret, _ := json.Marshal(o.Secrets)
	ids := func(id int) string { return fmt.Sprintf("%d:%d", id, id) }
	wait := func(ctx context.Context, r service.Running) error { // within: nothing of it is published
		_, err := r.Exec(ctx, program, Answers, string(place))
		return err
	}
	return &Runner{
		lab: labName, docker: d, image: o.Image, forge: o.Forge,
		worker: service.New(labName, d, ports, service.Spec{
			Name: WorkerName, Command: []string{program, Works, string(place)}, User: ids(workerUser), Volume: exchange, Alone: true, Tmpfs: map[string]string{WorkDir: "size=" + workerFiles},
			Memory: workerMemory, Processes: workerProcesses, CPUs: workerCPUs, ReadOnly: true, Health: wait,
		}),
		supervisor: service.New(labName, d, ports, service.Spec{
			Name: Name, Command: []string{program, Supervises, string(place)}, User: ids(supervisorUser), Volume: secrets, Alone: true, Networks: []string{Network(labName)},
			Mounts: map[string]string{lab.PartName(labName, WorkerName): exchange}, Files: []service.File{{Path: SecretsFile, Data: secret, Mode: 0o400, Owner: supervisorUser}},
			Memory: supervisorMemory, Processes: workerProcesses, CPUs: workerCPUs, ReadOnly: true, Health: wait,
		}),
	}
}

// Inputs returns a digest of the image and of both containers' specifications.
func (r *Runner) Inputs(...lab.Image) string {
	image, err := r.image(context.Background())
	ref := ""
	if err == nil {
		ref, err = image.ref()
	}
	if err != nil {
		return err.Error() // Start says so
	}
	return r.worker.Inputs(lab.Image{Ref: ref}) + " " + r.supervisor.Inputs(lab.Image{Ref: ref})
}

// Observe returns the state of both containers as that of one. It is connected if the forge is in the supervisor's network, too.
func (r *Runner) Observe(ctx context.Context) (service.State, error) {
	w, err := r.worker.Observe(ctx)
	if err != nil {
		return service.State{}, err
	}
	s, err := r.supervisor.Observe(ctx)
	if err != nil {
		return service.State{}, err
	}
	st := service.State{
		Exists: w.Exists && s.Exists, Volume: w.Exists || w.Volume || s.Exists || s.Volume, Running: w.Running && s.Running, Connected: w.Connected && s.Connected,
		Answers: w.Answers && s.Answers, Fault: cmp.Or(w.Fault, s.Fault), Inputs: w.Inputs + " " + s.Inputs,
	}
	if st.Connected {
		st.Connected, err = r.reached(ctx)
	}
	return st, err
}

// reached reports whether the forge is in the supervisor's network.
func (r *Runner) reached(ctx context.Context) (bool, error) {
	c, _, err := r.docker.Container(ctx, r.forge)
	_, connected := c.Addresses[Network(r.lab)]
	return connected, err
}

// Start makes both containers run; see Start of package service. The worker is first: the supervisor has its volume.
func (r *Runner) Start(ctx context.Context, p lab.Progress, _ ...lab.Image) error {
	image, err := r.image(ctx)
	if err != nil {
		return err
	}
	ref, err := image.load(ctx, r.docker, p)
	if err == nil {
		err = r.connect(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", Name, err)
	}
	if err := r.worker.Start(ctx, p, lab.Image{Ref: ref}); err != nil {
		return err
	}
	if err := r.supervisor.Start(ctx, p, lab.Image{Ref: ref}); err != nil {
		return err
	}
	r.forget(ctx)
	return nil
}

// forget removes the images of runners that no container has. Making one takes seconds.
func (r *Runner) forget(ctx context.Context) {
	out, err := r.docker.Output(ctx, nil, "image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "--filter", "reference="+repository)
	if err != nil {
		return
	}
	for _, ref := range strings.Fields(string(out)) {
		_, _ = r.docker.Output(ctx, nil, "image", "rm", ref) // fails while a container has it
	}
}

// connect makes the supervisor's network, with the forge. It has no way out, and this machine has no address in it: docker's default route there has no gateway.
func (r *Runner) connect(ctx context.Context) error {
	name := Network(r.lab)
	if _, err := r.docker.Output(ctx, nil, "network", "inspect", name); docker.NotFound(err) {
		args := append([]string{"network", "create", "--internal", "--opt", "com.docker.network.bridge.inhibit_ipv4=true"}, docker.Labels(map[string]string{lab.LabelName: r.lab, lab.LabelPart: Name})...)
		_, err = r.docker.Output(ctx, nil, append(args, name)...)
		if err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	connected, err := r.reached(ctx)
	if err == nil && !connected {
		err = r.docker.Connect(ctx, r.forge, name)
	}
	return err
}

// disconnectLimit bounds how long the end of the forge's container may take, which lab down removes meanwhile.
const disconnectLimit = 30 * time.Second

// disconnect removes the supervisor's network.
func (r *Runner) disconnect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, disconnectLimit)
	defer cancel()
	name := Network(r.lab)
	for {
		_, err := r.docker.Output(ctx, nil, "network", "disconnect", "--force", name, r.forge)
		if err == nil || docker.NotFound(err) || docker.Prints(err, "is not connected") {
			if _, err = r.docker.Output(ctx, nil, "network", "rm", name); err == nil || docker.NotFound(err) {
				return nil
			}
		}
		if !docker.Prints(err, "marked for removal") && !docker.Prints(err, "active endpoints") {
			return err
		}
		if lab.Sleep(ctx, time.Second) != nil {
			return err
		}
	}
}

// Remove deletes containers, volumes, network and image. Missing ones are ignored. The worker is last: while it is there, the rest is looked for.
func (r *Runner) Remove(ctx context.Context) error {
	if err := r.supervisor.Remove(ctx); err != nil {
		return err
	}
	if err := r.disconnect(ctx); err != nil {
		return fmt.Errorf("%s: %w", Name, err)
	}
	if err := r.worker.Remove(ctx); err != nil {
		return err
	}
	r.forget(ctx)
	return nil
}
