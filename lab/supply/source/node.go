package source

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
)

// node turns an image into a node image for Kind: it adds the runtime spec for pods and kubeadm's images in
// containerd's store. Kind's builder does that in a container that it commits; here, a temporary containerd on the
// machine does, and no container engine is needed.
func (a *assembly) node(ctx context.Context) error {
	spec, err := a.runtimeSpec(ctx)
	if err != nil {
		return err
	}
	a.layer.bytes("etc/containerd/cri-base.json", spec, 0o644, 0, 0)
	if err := a.checkPreload(ctx); err != nil {
		return err
	}
	images, err := a.preload()
	if err != nil {
		return err
	}
	root := filepath.Join(a.work, "containerd")
	if err := a.importImages(ctx, images, root); err != nil {
		return err
	}
	content := layer{}
	if err := content.tree(root); err != nil {
		return err
	}
	for name, e := range content {
		e.header.Name = "var/lib/containerd/" + e.header.Name
		if e.header.Typeflag == tar.TypeLink {
			e.header.Linkname = "var/lib/containerd/" + e.header.Linkname
		}
		a.layer["var/lib/containerd/"+name] = e
	}
	return nil
}

func (a *assembly) program(component, program string) string {
	return a.made[component].Path(program)
}

// runtimeSpec returns containerd's default spec with Kind's hook and without limits, as Kind's images/base/Dockerfile
// creates it with jq.
func (a *assembly) runtimeSpec(ctx context.Context) ([]byte, error) {
	out, err := run(ctx, a.work, nil, a.program(a.component.Containerd, "ctr"), "oci", "spec")
	if err != nil {
		return nil, err
	}
	return kindRuntimeSpec(out)
}

func kindRuntimeSpec(defaults []byte) ([]byte, error) {
	var spec map[string]any
	if err := json.Unmarshal(defaults, &spec); err != nil {
		return nil, fmt.Errorf("ctr oci spec: %w", err)
	}
	hooks, _ := spec["hooks"].(map[string]any)
	if hooks == nil {
		hooks = map[string]any{}
	}
	create, _ := hooks["createContainer"].([]any)
	hooks["createContainer"] = append(create, map[string]any{"path": "/kind/bin/mount-product-files.sh"})
	spec["hooks"] = hooks
	if process, ok := spec["process"].(map[string]any); ok {
		delete(process, "rlimits")
	}
	return json.MarshalIndent(spec, "", "  ")
}

// checkPreload compares the recipe's images with kubeadm's list: a missing one would only show as a node that tries to
// pull. The pause image is containerd's and is skipped.
func (a *assembly) checkPreload(ctx context.Context) error {
	args := []string{"config", "images", "list", "--kubernetes-version", a.component.Version}
	out, err := run(ctx, a.work, nil, a.program(a.component.Kubernetes, "kubeadm"), args...)
	if err != nil {
		return err
	}
	var refs, missing []string
	for _, p := range a.component.Preload {
		refs = append(refs, a.made[p].Ref)
	}
	for _, want := range strings.Fields(string(out)) {
		if !strings.Contains(want, "/pause:") && !slices.Contains(refs, want) {
			missing = append(missing, want)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s: kubeadm %s wants images that the recipe does not preload: %s", a.component.Name, a.component.Version, strings.Join(missing, ", "))
	}
	return nil
}

// preload writes the nested images as an OCI layout. Layers are compressed with zstd: Kind copies the image's /var into
// a volume per node, which is then a quarter of the size, at hardly any cost to unpack.
func (a *assembly) preload() (dir string, err error) {
	dir = filepath.Join(a.work, "preload")
	out, err := layout.Write(dir, empty.Index)
	if err != nil {
		return "", err
	}
	for _, p := range a.component.Preload {
		tag, err := name.NewTag(a.made[p].Ref)
		if err != nil {
			return "", err
		}
		img, err := tarball.ImageFromPath(a.made[p].Path(archiveFile), nil)
		if err != nil {
			return "", fmt.Errorf("%s: %w", p, err)
		}
		small, err := a.compressed(img)
		if err != nil {
			return "", fmt.Errorf("%s: %w", p, err)
		}
		full := strings.Replace(tag.Name(), name.DefaultRegistry, "docker.io", 1)
		if err := out.AppendImage(small, layout.WithAnnotations(map[string]string{"io.containerd.image.name": full})); err != nil {
			return "", fmt.Errorf("%s: %w", p, err)
		}
	}
	return dir, nil
}

func (a *assembly) compressed(img v1.Image) (v1.Image, error) {
	cfg, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	layers, err := img.Layers()
	if err != nil {
		return nil, err
	}
	small := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	small = mutate.ConfigMediaType(small, types.OCIConfigJSON)
	for _, l := range layers {
		z, err := a.zstd(l)
		if err != nil {
			return nil, err
		}
		if small, err = mutate.AppendLayers(small, z); err != nil {
			return nil, err
		}
	}
	cfg = cfg.DeepCopy()
	return mutate.ConfigFile(small, cfg)
}

func (a *assembly) zstd(l v1.Layer) (*fileLayer, error) {
	diffID, err := l.DiffID()
	if err != nil {
		return nil, err
	}
	r, err := l.Uncompressed()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	f, err := os.Create(filepath.Join(a.work, diffID.Hex+".zst"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	// Single-threaded, for output independent of the number of CPUs.
	z, err := zstd.NewWriter(io.MultiWriter(f, h), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(z, r); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return &fileLayer{file: f.Name(), digest: sum(h), diffID: diffID, size: info.Size(), media: types.OCILayerZStd}, f.Close()
}

// containerdConfig runs only containerd's content store.
const containerdConfig = `version = 3
root = %q
state = %q
disabled_plugins = ["io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", "io.containerd.nri.v1.nri",
  "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.erofs", "io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
[grpc]
  address = %q
[ttrpc]
  address = %q
`

// containerdStart is the timeout of containerd's start.
const containerdStart = 30 * time.Second

func (a *assembly) importImages(ctx context.Context, images, root string) (err error) {
	// Socket paths are limited to 107 bytes, which a cache folder may exceed.
	state, err := os.MkdirTemp("", "lab-ctr-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(state) }()
	socket := filepath.Join(state, "c.sock")
	config := filepath.Join(state, "config.toml")
	text := fmt.Sprintf(containerdConfig, root, filepath.Join(state, "s"), socket, socket+".ttrpc")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	archive := filepath.Join(a.work, "preload.tar")
	l := layer{}
	if err := l.tree(images); err != nil {
		return err
	}
	if _, err := l.writeFile(archive); err != nil {
		return err
	}

	log, err := os.Create(filepath.Join(state, "log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	daemonCtx, stop := context.WithCancel(ctx)
	cmd := exec.CommandContext(daemonCtx, a.program(a.component.Containerd, "containerd"), "--config", config)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.WaitDelay = 10 * time.Second
	group(cmd)
	if err := cmd.Start(); err != nil {
		stop()
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() {
		stop()
		<-ended // its database is closed
		if err != nil {
			said, _ := os.ReadFile(log.Name())
			err = fmt.Errorf("%w: %s", err, tail(string(said)))
		}
	}()
	ctr := a.program(a.component.Containerd, "ctr")
	if err := waitFor(ctx, containerdStart, func() error {
		_, err := run(ctx, a.work, nil, ctr, "--address", socket, "--timeout", "2s", "version")
		return err
	}); err != nil {
		return fmt.Errorf("containerd does not answer: %w", err)
	}
	_, err = run(ctx, a.work, nil, ctr, "--address", socket, "--namespace=k8s.io", "images", "import", "--label=io.cri-containerd.pinned=pinned",
		"--all-platforms", "--no-unpack", "--digests", archive)
	return err
}

// waitFor retries until the limit and returns the last error.
func waitFor(ctx context.Context, limit time.Duration, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}
