package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/docker"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	kind "sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/cluster/constants"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"
	"sigs.k8s.io/kind/pkg/exec"
)

// On lab's own node image a cluster with a single control plane is set up by lab: kind creates the nodes and writes their configuration, and lab takes the
// steps that follow. kind would run kubectl in the node four times in sequence, for which the API server computes its OpenAPI schemas; without it a cluster
// takes 3 s less of 16 s of processor time, and as much less on the clock of two busy cores. A cancelled kubeadm also ends immediately. Everything else, such as
// upstream's node image with its network daemon or several control planes behind a load balancer, is left to kind.

// assembles reports whether lab sets up the cluster itself.
func (k *Kind) assembles(ctx context.Context, cfg *v1alpha4.Cluster) (bool, error) {
	args := []string{"image", "inspect", "--format", `{{index .Config.Labels "` + lab.LabelInputs + `"}}`}
	controlPlanes := 0
	for _, n := range cfg.Nodes {
		args = append(args, n.Image)
		if n.Role == v1alpha4.ControlPlaneRole {
			controlPlanes++
		}
	}
	if controlPlanes != 1 {
		return false, nil
	}
	out, err := k.docker.Output(ctx, nil, args...)
	if docker.NotFound(err) { // kind pulls it
		return false, nil
	}
	if err != nil {
		return false, err
	}
	ours := !slices.Contains(strings.Split(strings.TrimSuffix(string(out), "\n"), "\n"), "")
	return ours, nil
}

// assemble sets up a cluster on configured nodes.
func (k *Kind) assemble(ctx context.Context, name string, provider *kind.Provider, p lab.Progress) error {
	all, err := provider.ListInternalNodes(lab.KindName(k.lab, name))
	if err != nil {
		return err
	}
	first, err := nodeutils.BootstrapControlPlaneNode(all)
	if err != nil {
		return err
	}
	var storage bytes.Buffer
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error {
		p("starting control plane")
		init := first.CommandContext(groupCtx, "sh", "-c", kubeadmInit)
		return run(init.SetStdin(strings.NewReader(dnsPatch(len(all)))))
	})
	group.Go(func() error {
		return run(first.CommandContext(groupCtx, "cat", "/kind/manifests/default-storage.yaml").SetStdout(&storage))
	})
	if err := group.Wait(); err != nil {
		return err
	}
	if err := k.writeKubeconfig(name); err != nil {
		return err
	}
	client, err := k.client(name)
	if err != nil {
		return err
	}
	group, groupCtx = errgroup.WithContext(ctx)
	group.Go(func() error { return k.createAll(groupCtx, name, &storage) })
	if len(all) == 1 {
		group.Go(func() error { return untaint(groupCtx, client, first.String()) })
	} else {
		group.Go(func() error { return join(groupCtx, all, p) })
	}
	return group.Wait()
}

// patchesDir is the directory of kubeadm's patches.
const (
	patchesDir  = "/kind/lab-patches"
	kubeadmInit = "mkdir -p " + patchesDir + " && cat >" + patchesDir + "/corednsdeployment+strategic.yaml && " +
		"exec kubeadm init --config=/kind/kubeadm.conf --skip-token-print </dev/null"
)

// dnsPatch returns a patch that probes the DNS servers' readiness every 2 s instead of 10 s, as the first probe always fails, and reduces them to one replica
// on a single node.
func dnsPatch(nodes int) string {
	patch := "spec: {template: {spec: {containers: [{name: coredns, readinessProbe: {periodSeconds: 2}}]}}}\n"
	if nodes == 1 {
		patch += "---\nspec: {replicas: 1}\n"
	}
	return patch
}

// run runs cmd and adds its last output to the error.
func run(cmd exec.Cmd) error { return explain(cmd.Run()) }

// untaint makes a lone control plane schedulable and reachable through load balancers, as kind does; kubeadm excludes it from both.
func untaint(ctx context.Context, client kubernetes.Interface, node string) error {
	const patch = `{"metadata":{"labels":{"node.kubernetes.io/exclude-from-external-load-balancers":null}},"spec":{"taints":null}}`
	err := retryAPI(ctx, func() error {
		_, err := client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("node %s: %w", node, err)
	}
	return nil
}

// join joins all workers in parallel.
func join(ctx context.Context, all []nodes.Node, p lab.Progress) error {
	workers, err := nodeutils.SelectNodesByRole(all, constants.WorkerNodeRoleValue)
	if err != nil {
		return err
	}
	p(fmt.Sprintf("joining %d workers", len(workers)))
	group, ctx := errgroup.WithContext(ctx)
	for _, n := range workers {
		group.Go(func() error { return run(n.CommandContext(ctx, "kubeadm", "join", "--config=/kind/kubeadm.conf")) })
	}
	return group.Wait()
}

var clusterWide = []string{"Namespace", "ClusterRole", "ClusterRoleBinding", "StorageClass"}

// createAll creates the objects of a manifest in order.
func (k *Kind) createAll(ctx context.Context, name string, manifest io.Reader) error {
	cfg, err := k.RESTConfig(name)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	docs := yaml.NewYAMLOrJSONDecoder(manifest, 4096)
	for {
		var o unstructured.Unstructured
		if err := docs.Decode(&o.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("storage manifest: %w", err)
		}
		if len(o.Object) == 0 {
			continue
		}
		// The manifest comes from the node image: it has no kinds with irregular plurals, and few cluster-wide ones, regardless of their namespace field.
		resource, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
		namespace := o.GetNamespace()
		if slices.Contains(clusterWide, o.GetKind()) {
			namespace = ""
		}
		err := retryAPI(ctx, func() error {
			_, err := client.Resource(resource).Namespace(namespace).Create(ctx, &o, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
}
