package cluster

import (
	"context"
	"slices"
	"strings"
	"time"

	"homelab/lab"
	"homelab/lab/docker"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// answerLimit is how long Observe waits for one cluster's API: it is on this machine, so it answers in milliseconds or is not well.
const answerLimit = 2 * time.Second

// Observe tells what there is of the lab's clusters. An API that does not answer is a finding, not an error.
func (k *Kind) Observe(ctx context.Context) ([]lab.ClusterState, error) {
	list, err := k.docker.Containers(ctx, "network="+lab.NetworkName(k.lab), "label="+kindClusterLabel)
	if err != nil {
		return nil, err
	}
	states := group(k.lab, list)
	var asking errgroup.Group // one request chain for each cluster; none of them fails the others
	for i := range states {
		if states[i].Running {
			asking.Go(func() error { k.ask(ctx, &states[i]); return nil })
		}
	}
	return states, asking.Wait()
}

// group sorts node containers into clusters, by name.
func group(labName string, list []docker.Container) []lab.ClusterState {
	sortNodes(list)
	at := map[string]int{}
	var states []lab.ClusterState
	for _, c := range list {
		name, ours := strings.CutPrefix(c.Labels[kindClusterLabel], lab.KindName(labName, ""))
		if !ours {
			continue
		}
		i, ok := at[name]
		if !ok {
			i = len(states)
			at[name] = i
			states = append(states, lab.ClusterState{Name: name, Exists: true, Running: true})
		}
		states[i].Nodes = append(states[i].Nodes, c.Name)
		states[i].Running = states[i].Running && c.Running
	}
	slices.SortFunc(states, func(a, b lab.ClusterState) int { return strings.Compare(a.Name, b.Name) })
	return states
}

// ask fills in what a cluster's API says about it.
func (k *Kind) ask(ctx context.Context, s *lab.ClusterState) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	cfg, err := k.RESTConfig(s.Name)
	if err != nil {
		return
	}
	cfg.Timeout = answerLimit // the request for the version takes no context
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return
	}
	var version string
	var ready bool
	var mark map[string]string
	var asking errgroup.Group
	asking.Go(func() error {
		v, err := client.Discovery().ServerVersion()
		if err == nil {
			version = v.GitVersion
		}
		return nil
	})
	asking.Go(func() error {
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return nil
		}
		ready = len(nodes.Items) > 0
		for _, n := range nodes.Items {
			ok, _ := nodeReady(&n)
			ready = ready && ok
		}
		return nil
	})
	asking.Go(func() error {
		m, err := client.CoreV1().ConfigMaps(system).Get(ctx, markName, metav1.GetOptions{})
		if err == nil {
			mark = m.Data
		}
		return nil
	})
	_ = asking.Wait() // what did not answer stays empty
	s.Kubernetes, s.Ready, s.Inputs, s.Images = version, ready, mark[markInputs], strings.Fields(mark[markImages])
}
