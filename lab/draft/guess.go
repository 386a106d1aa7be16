package draft

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/fluxset"
)

// environmentWord matches names of variables with the cluster's environment, or its name if it has none.
var environmentWord = regexp.MustCompile(`(^|_)(environment|env|stage)$`)

// guesses are values for names that nothing else defines.
var guesses = []struct{ words, value string }{
	{`interval|duration|period|timeout|ttl`, "1h"},
	{`schedule|cron`, "0 0 * * *"},
	{`replicas|count|_min|_max|^min|^max|number$|weight$|percent$`, "1"},
	{`seconds$`, "60"},
	{`enabled?$|^enable|disabled?$`, "false"},
	{`port$`, "8080"},
	{`cidr`, "10.0.0.0/16"},
	{`(^|_)ip(_|$)|address`, "10.0.0.10"},
	{`e?mail`, "lab@lab.example.com"},
	{`ur[il]$|endpoint|issuer`, "https://lab.example.com"},
	{`domain|host|fqdn|dns|zone`, "lab.example.com"},
	{`size|storage|capacity`, "1Gi"},
	{`storage_?class`, "standard"},
	{`cpu`, "100m"},
	{`memory|(^|_)mem(_|$)`, "128Mi"},
	{`(^|_)p?[ug]id$|runasuser|runasgroup|fsgroup`, "1000"},
	{`node_?port`, "30080"},
	{`time_?zone|(^|_)tz$`, "UTC"},
	{`zone_?id`, "Z0123456789ABCDEFGHIJ"},
	{`availability_?zone|(^|_)azs?$`, "eu-west-1a"},
	{`_arn$`, "arn:aws:iam::123456789012:role/lab"},
	{`dockerconfigjson`, `{"auths":{}}`},
}

// valueOf returns a seed's value of a key, and its origin.
func (d *drafting) valueOf(s *seed, k fluxset.ReadKey) (value, how string) {
	if value, same := s.same(k.Name); same {
		return value, Found
	}
	return d.seedValue(k)
}

// seedValue returns the bridge's variable of a similar name, or a value guessed from the name.
func (d *drafting) seedValue(k fluxset.ReadKey) (value, how string) {
	if k.Text {
		return "{}", MadeUp
	}
	name := strings.ToLower(k.Name)
	provider := d.environment(lab.DefaultEnvironment).Cloud.Provider
	names := []string{k.Name, name, provider + "_" + name, "cluster_" + name}
	for _, rest, more := strings.Cut(name, "_"); more; _, rest, more = strings.Cut(rest, "_") { // private_subnet_ids: aws_subnet_ids
		names = append(names, provider+"_"+rest)
	}
	if environmentWord.MatchString(name) {
		names = append(names, "environment", "cluster_name")
	}
	for _, v := range names {
		if d.bridged(v) {
			return "${quote}${" + v + "}${quote}", Bridged
		}
	}
	for _, of := range slices.Concat([]string{name}, k.Fields) {
		for _, g := range slices.Backward(guesses) {
			if regexp.MustCompile(g.words).MatchString(of) {
				return g.value, MadeUp
			}
		}
	}
	return cmp.Or(strings.Trim(unfit.ReplaceAllString(name, "-"), "-"), "lab"), MadeUp
}

// bridged reports whether every cluster has a variable.
func (d *drafting) bridged(name string) bool {
	for _, c := range d.estate.Clusters {
		if !c.Addons[d.seedsAddon()] {
			continue
		}
		reg := d.registered(c)
		if lab.Variables(lab.Strings(reg.Labels), lab.Strings(reg.Annotations))[name] == "" {
			return false
		}
	}
	return true
}
