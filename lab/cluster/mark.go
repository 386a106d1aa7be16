package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/state"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
)

// The mark records the inputs of a cluster. It is written last and to three places, any one of which suffices: the cluster (a ConfigMap in kube-system,
// including the images), every node's file system, readable while the node is stopped, and lab's state folder.
const (
	markName   = "lab"
	markInputs = "inputs"
	markImages = "images"
	markFile   = "/kind/lab.json"
)

// Evidence is the mark as read from one place.
type Evidence struct {
	Known  bool // the place could be read
	Found  bool // it holds a mark
	Inputs string
}

// Mark records a cluster's inputs and loaded images, each as a caller-defined string. The API's mark is written after the nodes': its presence implies theirs,
// and if it is missing, the next run writes all of them again.
func (k *Kind) Mark(ctx context.Context, name, inputs string, images []string) error {
	client, err := k.client(name)
	if err != nil {
		return err
	}
	m := corev1.ConfigMap(markName, system).WithLabels(map[string]string{lab.LabelName: k.lab, lab.LabelPart: "cluster"}).
		WithData(map[string]string{markInputs: inputs, markImages: strings.Join(slices.Compact(slices.Sorted(slices.Values(images))), " ")})
	text, err := json.Marshal(map[string]string{markInputs: inputs})
	if err != nil {
		return err
	}
	nodes, err := k.nodes(ctx, name)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if n.Labels[kindRoleLabel] == loadBalancer { // has no shell
			continue
		}
		if _, err := k.docker.Exec(ctx, n.ID, strings.NewReader(string(text)), "sh", "-c", "cat >"+markFile+".new && mv "+markFile+".new "+markFile); err != nil {
			return fmt.Errorf("cluster %s: mark: %w", name, err)
		}
	}
	if _, err := client.CoreV1().ConfigMaps(system).Apply(ctx, m, metav1.ApplyOptions{FieldManager: "lab", Force: true}); err != nil {
		return fmt.Errorf("cluster %s: mark: %w", name, err)
	}
	return k.record(name, inputs, nodes)
}

// Record restores lab's record of a complete cluster.
func (k *Kind) Record(ctx context.Context, name, inputs string) error {
	nodes, err := k.nodes(ctx, name)
	if err != nil {
		return err
	}
	return k.record(name, inputs, nodes)
}

func (k *Kind) record(name, inputs string, nodes []docker.Container) error {
	c := k.state.Cluster(name)
	c.Nodes, c.Whole, c.Removing, c.Inputs = ids(nodes), true, false, inputs
	return k.state.SaveCluster(name, c)
}

func ids(nodes []docker.Container) []string {
	list := make([]string, 0, len(nodes))
	for _, n := range nodes {
		list = append(list, n.ID)
	}
	slices.Sort(list)
	return list
}

// apiMark reads the mark from the cluster's API.
func apiMark(ctx context.Context, client kubernetes.Interface) (Evidence, []string) {
	m, err := client.CoreV1().ConfigMaps(system).Get(ctx, markName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Evidence{Known: true}, nil
	}
	if err != nil {
		return Evidence{}, nil
	}
	return Evidence{Known: true, Found: true, Inputs: m.Data[markInputs]}, strings.Fields(m.Data[markImages])
}

// copyLimit bounds the reading of a small file from a node; the mark is unknown afterwards.
const copyLimit = 10 * time.Second

// nodeMark reads the mark from a node's file system, running or stopped.
func (k *Kind) nodeMark(ctx context.Context, nodes []docker.Container) Evidence {
	ctx, cancel := context.WithTimeout(ctx, copyLimit)
	defer cancel()
	for _, n := range nodes {
		if n.Labels[kindRoleLabel] == loadBalancer {
			continue
		}
		text, err := k.docker.File(ctx, n.ID, markFile)
		switch {
		case errors.Is(err, docker.ErrNoFile):
			return Evidence{Known: true}
		case err != nil:
			return Evidence{}
		}
		var m map[string]string
		if json.Unmarshal(text, &m) != nil { // never partial: it is renamed into place
			return Evidence{}
		}
		return Evidence{Known: true, Found: true, Inputs: m[markInputs]}
	}
	return Evidence{}
}

// Judge decides how a cluster with the given container ids was created from the evidence of the three places. It is a pure function; node is called only if the
// others do not suffice.
func Judge(r state.Cluster, ids []string, api Evidence, node func() Evidence) (lab.Made, string) {
	recorded := func(id string) bool { return slices.Contains(r.Nodes, id) }
	ours := !slices.ContainsFunc(ids, func(id string) bool { return !recorded(id) })
	if r.Removing && ours && len(ids) < len(r.Nodes) { // the removed containers cannot be restored
		return lab.MadeHalf, ""
	}
	if api.Found {
		return lab.MadeWhole, api.Inputs
	}
	if r.Whole && ours {
		return lab.MadeWhole, r.Inputs
	}
	file := node()
	switch {
	case file.Found:
		return lab.MadeWhole, file.Inputs
	case !file.Known:
		return lab.MadeUnknown, ""
	case !r.Began.IsZero() && !r.Whole && (ours || len(r.Nodes) == 0):
		return lab.MadeHalf, ""
	}
	return lab.MadeUnknown, ""
}
