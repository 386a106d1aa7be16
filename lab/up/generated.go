package up

import (
	"maps"
	"slices"
	"strings"

	"homelab/lab"
)

// generated returns the applications that the estate generates for the clusters, roots aside.
func (l *Lab) generated(clusters []lab.Cluster) []lab.Application {
	var list []lab.Application
	for _, a := range l.Estate.Applications {
		if !a.Root && slices.ContainsFunc(clusters, func(c lab.Cluster) bool { return c.Name == a.Cluster }) {
			list = append(list, a.Application)
		}
	}
	return list
}

// expected returns the generated applications that a run waits for.
func (l *Lab) expected(clusters []lab.Cluster) []lab.Application {
	return slices.DeleteFunc(l.generated(clusters), func(a lab.Application) bool { return a.LeftOut != "" })
}

// withoutLeftOut returns applications with the health that they have without left-out ApplicationSets.
func (l *Lab) withoutLeftOut(apps []lab.Application) []lab.Application {
	out := l.leftOut()
	apps = slices.Clone(apps)
	for i := range apps {
		a := &apps[i]
		if a.FaultySets != "" && !slices.ContainsFunc(strings.Split(a.FaultySets, ","), func(set string) bool { return out[set] == "" }) {
			a.Health = "Healthy"
		}
	}
	return apps
}

// leftOut returns, by name, why applications are left out of this lab.
func (l *Lab) leftOut() map[string]string {
	list := map[string]string{}
	for _, s := range l.Estate.UnknownSets {
		list[lab.SetName(s.Name)] = "unknown"
	}
	for _, a := range l.Estate.Applications {
		if a.LeftOut != "" {
			list[a.Name] = a.LeftOut
			if a.Set != "" {
				list[lab.SetName(a.Set)] = a.LeftOut
			}
		}
	}
	return list
}

// doubted adds to applications that have not converged what they lack, as far as the estate's files show.
func (l *Lab) doubted(apps []lab.Application) []lab.Application {
	for i := range apps {
		if a := &apps[i]; !a.Converged() {
			a.Message = strings.Trim(l.doubts()[a.Name]+"; "+a.Message, "; ")
		}
	}
	return apps
}

// doubts returns, by name, why applications that are waited for may not converge.
func (l *Lab) doubts() map[string]string {
	list := map[string]string{}
	for _, a := range l.Estate.Applications {
		if a.Doubt != "" && a.LeftOut == "" {
			list[a.Name] = a.Doubt
		}
	}
	return list
}

// disabled returns the applications of the clusters that exist only if all addons are enabled.
func (l *Lab) disabled(clusters []lab.Cluster) []lab.Application {
	asked := applicationNames(l.expected(clusters))
	asked = slices.AppendSeq(asked, maps.Keys(l.leftOut()))
	var list []lab.Application
	for _, a := range l.Estate.Possible {
		if slices.ContainsFunc(clusters, func(c lab.Cluster) bool { return c.Name == a.Cluster }) && !slices.Contains(asked, a.Name) {
			list = append(list, a)
		}
	}
	return list
}

func applicationNames(list []lab.Application) []string {
	var names []string
	for _, a := range list {
		names = append(names, a.Name)
	}
	return names
}
