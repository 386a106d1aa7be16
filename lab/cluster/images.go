package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"homelab/lab"
	"homelab/lab/docker"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"
	"sigs.k8s.io/kind/pkg/log"
)

// imageSet holds the images of a cluster under creation.
type imageSet struct {
	list    []lab.Image
	fetched chan struct{} // closed once list is set
	seed    string        // empty if there is none
	seeded  chan struct{} // closed once seed is set
}

// loadWhenSteady loads the images of a cluster under creation. It requests them immediately, as they may need to be built, and streams those that no seed
// brought into the nodes as soon as containerd is steady, in parallel with kubeadm.
func (k *Kind) loadWhenSteady(ctx context.Context, spec Spec, in *imageSet, steady <-chan struct{}, p lab.Progress) (err error) {
	if spec.Images != nil {
		if in.list, err = spec.Images(ctx); err != nil {
			return fmt.Errorf("images: %w", err)
		}
	}
	close(in.fetched)
	select {
	case <-steady:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return k.load(ctx, spec.Cluster.Name, in.list, p)
}

// Load loads images into every node that lacks them.
func (k *Kind) Load(ctx context.Context, name string, images []lab.Image, p lab.Progress) error {
	if err := k.load(ctx, name, images, orDiscard(p)); err != nil {
		return fmt.Errorf("cluster %s: %w", name, err)
	}
	return nil
}

func (k *Kind) load(ctx context.Context, name string, images []lab.Image, p lab.Progress) error {
	if len(images) == 0 {
		return nil
	}
	containers, err := k.nodes(ctx, name)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range containers {
		if c.Labels[kindRoleLabel] != loadBalancer {
			group.Go(func() error { return k.loadNode(ctx, name, c.Name, images, p) })
		}
	}
	return group.Wait()
}

// loadNode loads archives sequentially: unpacking is bound by the node's disk and processors.
func (k *Kind) loadNode(ctx context.Context, cluster, node string, images []lab.Image, p lab.Progress) error {
	have, err := k.waitImages(ctx, node)
	if err != nil {
		return err
	}
	for _, image := range images {
		if slices.Contains(have[image.Ref], image.Digest) {
			continue
		}
		p("loading image " + image.Ref)
		if err := k.loadArchive(ctx, cluster, node, image.Archive); err != nil {
			return fmt.Errorf("image %s into %s: %w", image.Ref, node, err)
		}
	}
	return nil
}

// containerdLimit bounds the wait for a node's containerd, which is under way when the images are: a busy machine takes half a minute.
const containerdLimit = 2 * time.Minute

// imagesScript lists the images of a node once its containerd answers. It polls within the node: each docker exec costs as much processor time (0.3 s on a slow
// machine) as crictl, and four nodes that boot take it from one another.
const imagesScript = `i=0
while [ $i -lt 200 ]; do
  if [ -S /run/containerd/containerd.sock ] && crictl images --output json 2>/dev/null; then exit; fi
  i=$((i+1)); sleep 0.5
done
exec crictl images --output json`

// waitImages lists the images of a node, retrying until its containerd answers.
func (k *Kind) waitImages(ctx context.Context, node string) (map[string][]string, error) {
	limited, cancel := context.WithTimeout(ctx, containerdLimit)
	defer cancel()
	for {
		have, err := k.imageIDs(limited, node)
		if err == nil {
			return have, nil
		}
		if lab.Sleep(limited, 500*time.Millisecond) != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, fmt.Errorf("containerd did not answer within %s: %w", containerdLimit, err)
		}
	}
}

// importScript streams an archive into containerd. Without --local, ctr passes the stream on in chunks: Argo CD's 370 MB take 11 s of processor time, including
// the engine's, instead of 5 s. The snapshotter is the one selected by the node's entrypoint.
const importScript = `snapshotter=$(sed -n 's/^ *snapshotter = "\(.*\)"/\1/p' /etc/containerd/config.toml | head -n 1)
exec ctr --namespace=k8s.io images import --local --all-platforms --digests --snapshotter="${snapshotter:-overlayfs}" -`

func (k *Kind) loadArchive(ctx context.Context, cluster, node, archive string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = k.docker.Output(ctx, f, "exec", "--privileged", "--interactive", node, "sh", "-c", importScript)
	if !docker.Prints(err, "flag provided but not defined") {
		return err
	}
	// containerd before 1.7: import as kind does.
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	provider, err := k.provider(log.NoopLogger{})
	if err != nil {
		return err
	}
	all, err := provider.ListInternalNodes(lab.KindName(k.lab, cluster))
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(n nodes.Node) bool { return n.String() == node })
	if i < 0 {
		return fmt.Errorf("kind does not list node %s", node)
	}
	err = nodeutils.LoadImageArchive(all[i], contextReader{ctx, f})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// contextReader ends a stream with its context, as kind's image loading takes none.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(b)
}

// imageIDs lists the images of a node: the ids (config digests) of each name.
func (k *Kind) imageIDs(ctx context.Context, node string) (map[string][]string, error) {
	out, err := k.docker.Exec(ctx, node, nil, "sh", "-c", imagesScript)
	if err != nil {
		return nil, fmt.Errorf("images of %s: %w", node, err)
	}
	var list struct {
		Images []struct {
			ID       string   `json:"id"`
			RepoTags []string `json:"repoTags"`
		} `json:"images"`
	}
	if err := json.Unmarshal(out, &list); err != nil {
		return nil, fmt.Errorf("images of %s: %w", node, err)
	}
	ids := map[string][]string{}
	for _, i := range list.Images {
		for _, tag := range i.RepoTags {
			ids[tag] = append(ids[tag], i.ID)
		}
	}
	return ids, nil
}
