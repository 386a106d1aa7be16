package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"homelab/lab"
	"homelab/lab/docker"

	"golang.org/x/sync/errgroup"
)

// A seed is a volume with a node's /var in which containerd has already imported and unpacked a set of images: those of the node image and those to load. A
// new node gets a copy, with hard links to files that containerd never changes. Importing and unpacking the images in each node takes a fifth of the
// processor time of a lab of four clusters. Like the image cache, seeds are shared by labs and outlive them.

const (
	labelSeed   = "lab.homelab/seed"
	seedVolume  = "lab-seed-"
	seedFormat  = 1 // increase if older seeds must not be used
	seedLimit   = 3 * time.Minute
	seedsKept   = 8
	seedsUnused = 14 * 24 * time.Hour // until a seed is removed
)

// seedName returns the volume name of the seed for a node image, given by its ID, with images.
func seedName(node string, images []lab.Image) string {
	sum := digest([]any{seedFormat, node, ImagesDigest(images)})
	return seedVolume + strings.TrimPrefix(sum, "sha256:")[:12]
}

// awaitSeed sets in.seed once the images are available.
func (k *Kind) awaitSeed(ctx context.Context, spec Spec, in *imageSet, p lab.Progress) {
	defer close(in.seeded)
	select {
	case <-in.fetched:
	case <-ctx.Done():
		return
	}
	if len(in.list) == 0 {
		return
	}
	seed, err := k.seed(ctx, spec.NodeRef, in.list, p)
	if err != nil {
		unseeded(ctx, err, p)
		return
	}
	in.seed = seed
}

// seedNodes plants the seed in a cluster's nodes, unless its images are still being built.
func (k *Kind) seedNodes(ctx context.Context, spec Spec, in *imageSet, p lab.Progress) {
	select {
	case <-in.fetched:
	default:
		return
	}
	<-in.seeded
	if in.seed == "" {
		return
	}
	p("copying its images")
	if err := k.plantWhole(ctx, in.seed, spec, in.list, p); err != nil {
		unseeded(ctx, err, p)
	}
}

// unseeded reports that a cluster imports its images one by one, which takes longer, and why.
func unseeded(ctx context.Context, err error, p lab.Progress) {
	if ctx.Err() == nil {
		text, _, _ := strings.Cut(err.Error(), "\n")
		p("importing its images one by one: " + text)
	}
}

// seed returns the seed for a node image with images, creating it if missing. Concurrent calls for one seed share the work.
func (k *Kind) seed(ctx context.Context, node string, images []lab.Image, p lab.Progress) (string, error) {
	id, _, err := k.docker.ImageID(ctx, node)
	if err != nil {
		return "", err
	}
	name := seedName(id, images)
	_, err, _ = k.seeds.Do(name, func() (any, error) {
		if have, err := k.seedVolumes(ctx); err != nil || slices.Contains(have, name) {
			return nil, err
		}
		return nil, k.makeSeed(ctx, name, node, images, p)
	})
	return name, err
}

// seedVolumes lists the volumes of all seeds, including incomplete ones.
func (k *Kind) seedVolumes(ctx context.Context) ([]string, error) {
	out, err := k.docker.Output(ctx, nil, "volume", "ls", "--quiet", "--filter", "label="+labelSeed)
	return strings.Fields(string(out)), err
}

// makeSeedScript runs containerd on /var and imports archives from standard input, each preceded by a line with its size, until a line "end". Mounting an
// image unpacks it. If lab is killed, the input ends early, which ends the script. A complete seed is left unchanged.
const makeSeedScript = `set -eo pipefail
[ ! -e /var/seed ] || exit 0
containerd --log-level=error >/dev/null 2>&1 &
trap 'kill $! 2>/dev/null || true' EXIT
c() { ctr --namespace=k8s.io "$@"; }
for _ in $(seq 300); do
  ! c version >/dev/null 2>&1 || break
  kill -0 $!
  sleep 0.1
done
end=
while read -r size; do
  [ "$size" != end ] || { end=1; break; }
  head -c "$size" | c images import --local --all-platforms --digests --snapshotter=overlayfs - >/dev/null
done
[ "$end" ]
n=0
for ref in $(c images ls -q | grep -v '^sha256:'); do
  n=$((n+1))
  mkdir "/tmp/$n"
  c images mount --snapshotter=overlayfs "$ref" "/tmp/$n" >/dev/null
  c images unmount --rm "/tmp/$n" >/dev/null
done
kill $!
wait $! || true
sync -f /var
touch /var/seed
sync /var/seed`

// makeSeed creates a seed. If another process is creating it, makeSeed waits until that ends, which may leave the seed incomplete.
func (k *Kind) makeSeed(ctx context.Context, name, node string, images []lab.Image, p lab.Progress) error {
	ctx, cancel := context.WithTimeoutCause(ctx, seedLimit, fmt.Errorf("not created within %s", seedLimit))
	defer cancel()
	p("preparing its images")
	err := k.tryMakeSeed(ctx, name, node, images)
	for busy := beingMade(err); busy; {
		if lab.Sleep(ctx, 500*time.Millisecond) != nil {
			return context.Cause(ctx)
		}
		list, failed := k.docker.Containers(ctx, "volume="+name)
		err, busy = failed, len(list) > 0
	}
	return err
}

// beingMade reports whether a seed could not be created because another process is creating it.
func beingMade(err error) bool { return errors.Is(err, docker.ErrNameTaken) }

func (k *Kind) tryMakeSeed(ctx context.Context, name, node string, images []lab.Image) error {
	archives, closeAll, err := archivesOf(images)
	defer closeAll()
	if err != nil {
		return err
	}
	if err := k.removeOldSeeds(ctx, node); err != nil {
		return err
	}
	if _, err := k.docker.Output(ctx, nil, "volume", "create", "--label", labelSeed+"="+name, name); err != nil {
		return err
	}
	_, err = k.docker.Output(ctx, archives, "run", "--rm", "--interactive", "--name", name, "--network=none", "--privileged", "--entrypoint=bash",
		"--mount", "type=volume,source="+name+",target=/var", "--label", labelSeed+"="+name, node, "-c", makeSeedScript)
	if err != nil && !beingMade(err) {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpLimit)
		defer cancel()
		err = errors.Join(err, k.removeSeed(clean, name))
	}
	return err
}

// removeSeed removes an incomplete seed.
func (k *Kind) removeSeed(ctx context.Context, name string) error {
	for _, args := range [][]string{{"rm", "--force", name}, {"volume", "rm", "--force", name}} {
		if _, err := k.docker.Output(ctx, nil, args...); err != nil && !docker.NotFound(err) && !errors.Is(err, docker.ErrRemoved) {
			return err
		}
	}
	return nil
}

// archivesOf returns the input of makeSeedScript.
func archivesOf(images []lab.Image) (io.Reader, func(), error) {
	var parts []io.Reader
	var files []io.Closer
	done := func() {
		for _, f := range files {
			_ = f.Close()
		}
	}
	for _, image := range images {
		f, err := os.Open(image.Archive)
		if err != nil {
			return nil, done, err
		}
		files = append(files, f)
		info, err := f.Stat()
		if err != nil {
			return nil, done, err
		}
		parts = append(parts, strings.NewReader(strconv.FormatInt(info.Size(), 10)+"\n"), io.LimitReader(f, info.Size()))
	}
	return io.MultiReader(append(parts, strings.NewReader("end\n"))...), done, nil
}

// ageScript prints the age of seeds in seconds since their last use, with their names. The age of an incomplete seed is that of its volume.
const ageScript = `for v; do f=/volumes/$v/_data; [ ! -e "$f/seed" ] || f=$f/seed; [ ! -e "$f" ] || echo $(($(date +%s) - $(stat -c %Y "$f"))) "$v"; done`

// removeOldSeeds removes seeds that were not used recently, to free space for another one.
func (k *Kind) removeOldSeeds(ctx context.Context, node string) error {
	names, err := k.seedVolumes(ctx)
	if err != nil || len(names) == 0 {
		return err
	}
	out, err := k.docker.OnVolumes(ctx, docker.Helper{Image: node, Volumes: names}, ageScript, names...)
	if err != nil {
		return err
	}
	for _, name := range oldSeeds(string(out)) {
		if _, err := k.docker.Output(ctx, nil, "volume", "rm", name); err != nil && !docker.NotFound(err) && !errors.Is(err, docker.ErrInUse) {
			return err
		}
	}
	return nil
}

// oldSeeds returns the seeds to remove before another one is created. ages is the output of ageScript.
func oldSeeds(ages string) []string {
	type aged struct {
		name string
		age  time.Duration
	}
	var list []aged
	for line := range strings.Lines(ages) {
		seconds, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(seconds)
		if err == nil && name != "" {
			list = append(list, aged{name, time.Duration(n) * time.Second})
		}
	}
	slices.SortStableFunc(list, func(a, b aged) int { return cmp.Compare(a.age, b.age) })
	var old []string
	for i, s := range list {
		if s.age > seedsUnused || i >= seedsKept-1 {
			old = append(old, s.name)
		}
	}
	return old
}

const (
	planted = "lab-seed" // folder in a node's /var
	// plantScript runs docker.CopyVolumes from a seed, its first argument. Exit 3 means that the seed is incomplete.
	plantScript = `[ -e "/volumes/$1/_data/seed" ] || exit 3
touch "/volumes/$1/_data/seed"
shift
` + docker.CopyVolumes
	// swapScript replaces containerd's data in a node by the planted one, unless the node's entrypoint chose another snapshotter.
	swapScript = `cd /var || exit
if grep -q '^ *snapshotter = "overlayfs"' /etc/containerd/config.toml; then
  systemctl stop containerd
  mv lib/containerd ` + planted + `/former && { mv ` + planted + `/lib/containerd lib/containerd || mv ` + planted + `/former lib/containerd; }
  systemctl start containerd || exit
fi
rm -rf ` + planted
)

// errIncomplete means that the run that created a seed did not complete it.
var errIncomplete = errors.New("the seed is incomplete")

// plantWhole is like plant, but recreates an incomplete seed.
func (k *Kind) plantWhole(ctx context.Context, seed string, spec Spec, images []lab.Image, p lab.Progress) error {
	err := k.plant(ctx, seed, spec)
	if !errors.Is(err, errIncomplete) {
		return err
	}
	_, err, _ = k.seeds.Do(seed, func() (any, error) {
		whole, err := k.docker.OnVolumes(ctx, docker.Helper{Image: spec.NodeRef, Volumes: []string{seed}}, `[ ! -e "/volumes/$1/_data/seed" ] || echo whole`, seed)
		if err != nil || len(whole) > 0 { // created meanwhile
			return nil, err
		}
		if _, err := k.docker.Output(ctx, nil, "volume", "rm", "--force", seed); err != nil && !docker.NotFound(err) && !errors.Is(err, docker.ErrInUse) {
			return nil, err
		}
		return nil, k.makeSeed(ctx, seed, spec.NodeRef, images, p)
	})
	if err != nil {
		return err
	}
	return k.plant(ctx, seed, spec)
}

// plant copies a seed into a cluster's new nodes, whose control plane has not been started.
func (k *Kind) plant(ctx context.Context, seed string, spec Spec) error {
	nodes, err := k.nodes(ctx, spec.Cluster.Name)
	if err != nil {
		return err
	}
	h := docker.Helper{Image: spec.NodeRef, Volumes: []string{seed}}
	args := []string{seed}
	for _, n := range nodes {
		volume := n.Volumes["/var"]
		if volume == "" {
			return fmt.Errorf("node %s has no volume at /var", n.Name)
		}
		h.Volumes = append(h.Volumes, volume)
		args = append(args, seed, volume+"/"+planted)
	}
	if _, err := k.docker.OnVolumes(ctx, h, plantScript, args...); err != nil {
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 3 {
			return errIncomplete
		}
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, n := range nodes {
		group.Go(func() error {
			_, err := k.docker.Exec(ctx, n.Name, nil, "sh", "-c", swapScript)
			return err
		})
	}
	return group.Wait()
}
