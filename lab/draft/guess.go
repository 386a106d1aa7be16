package draft

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/flux"
	"homelab/lab/fluxset"
)

// environmentWord matches names of variables with the cluster's environment, or its name if it has none.
var environmentWord = regexp.MustCompile(`(^|_)(environment|env|stage)$`)

// guesses are values for names that nothing else defines.
var guesses = []struct {
	words *regexp.Regexp
	value string
}{
	{regexp.MustCompile(`interval|duration|period|timeout|ttl`), "1h"},
	{regexp.MustCompile(`schedule|cron`), "0 0 * * *"},
	{regexp.MustCompile(`replicas|count|_min|_max|^min|^max|number$|weight$|percent$`), "1"},
	{regexp.MustCompile(`seconds$`), "60"},
	{regexp.MustCompile(`enabled?$|^enable|disabled?$`), "false"},
	{regexp.MustCompile(`port$`), "8080"},
	{regexp.MustCompile(`cidr`), "10.0.0.0/16"},
	{regexp.MustCompile(`(^|_)ip(_|$)|address`), "10.0.0.10"},
	{regexp.MustCompile(`e?mail`), "lab@lab.example.com"},
	{regexp.MustCompile(`ur[il]$|endpoint|issuer`), "https://lab.example.com"},
	{regexp.MustCompile(`domain|host|fqdn|dns|zone`), "lab.example.com"},
	{regexp.MustCompile(`size|storage|capacity`), "1Gi"},
	{regexp.MustCompile(`storage_?class`), "standard"},
	{regexp.MustCompile(`cpu`), "100m"},
	{regexp.MustCompile(`memory|(^|_)mem(_|$)`), "128Mi"},
	{regexp.MustCompile(`(^|_)p?[ug]id$|runasuser|runasgroup|fsgroup`), "1000"},
	{regexp.MustCompile(`node_?port`), "30080"},
	{regexp.MustCompile(`time_?zone|(^|_)tz$`), "UTC"},
	{regexp.MustCompile(`zone_?id`), "Z0123456789ABCDEFGHIJ"},
	{regexp.MustCompile(`availability_?zone|(^|_)azs?$`), "eu-west-1a"},
	{regexp.MustCompile(`_arn$`), "arn:aws:iam::123456789012:role/lab"},
	{regexp.MustCompile(`dockerconfigjson`), `{"auths":{}}`},
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
			if g.words.MatchString(of) {
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
		if flux.Variables(lab.Strings(reg.Labels), lab.Strings(reg.Annotations))[name] == "" {
			return false
		}
	}
	return true
}
