package estate

import (
	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/argo"
)

// MinorOf returns the minor of Argo CD that the estate is for; zero for the default. One that lab does not model is treated as the nearest.
func MinorOf(e *lab.Estate) argo.Minor {
	hub := e.Hub().Engine
	if hub.Type != lab.EngineArgoCD || hub.Version == "" {
		return 0
	}
	m, _ := argo.ParseMinor(hub.Version)
	return m
}

func (l *loader) api() appset.API { return appset.API{Minor: MinorOf(l.estate)} }

// kubeVersion returns the version of a cluster that charts see; empty for lab's.
func kubeVersion(c lab.Cluster) string {
	if c.Kubernetes != "" && c.Kubernetes == lab.Minor(c.Kubernetes) {
		return c.Kubernetes + ".0"
	}
	return c.Kubernetes
}
