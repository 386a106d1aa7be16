package up

import (
	"fmt"
	"slices"
	"strings"

	"homelab/lab"
)

// Only limits a run to the named clusters and the hub, which manages them; the others are left unchanged.
func (o *Options) Only(est *lab.Estate, names []string) error {
	if err := Known(est, "only", names); err != nil {
		return err
	}
	o.Others = true
	for _, c := range est.Clusters {
		if c.Role == lab.RoleHub || slices.Contains(names, c.Name) {
			o.Clusters = append(o.Clusters, c)
		}
	}
	return nil
}

// Known reports names that are not clusters of the estate as a usage error of flag.
func Known(est *lab.Estate, flag string, names []string) error {
	for _, name := range names {
		if _, ok := est.Cluster(name); !ok {
			return &lab.Error{
				Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("--%s: the estate has no cluster %q", flag, name), Cure: "there are: " + clusterNames(est),
			}
		}
	}
	return nil
}

// Recreatable reports names that are not clusters of the estate, or are attached clusters, which lab cannot recreate.
func Recreatable(est *lab.Estate, names []string) error {
	if err := Known(est, "recreate", names); err != nil {
		return err
	}
	for _, name := range names {
		if c, _ := est.Cluster(name); c.Provider == lab.ProviderExisting {
			return &lab.Error{
				Exit: lab.ExitInvalid, Code: "usage", Message: "--recreate: lab did not create cluster " + name, Cure: "its owner can recreate it; lab up then registers it again",
			}
		}
	}
	return nil
}

// RegistrationsOf returns the bridge of one cluster of an estate, or of all of them if cluster is empty, hub first.
func RegistrationsOf(labName string, est *lab.Estate, cluster string) ([]lab.Registration, error) {
	list := Registrations(labName, est)
	if cluster != "" {
		list = slices.DeleteFunc(list, func(r lab.Registration) bool { return r.Cluster != cluster })
	}
	if len(list) == 0 {
		return nil, &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("the estate has no cluster %q", cluster), Cure: "there are: " + clusterNames(est)}
	}
	return list, nil
}

func clusterNames(est *lab.Estate) string {
	var names []string
	for _, c := range est.Clusters {
		names = append(names, c.Name)
	}
	return strings.Join(names, ", ")
}
