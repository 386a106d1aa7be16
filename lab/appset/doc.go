// Package appset expands ApplicationSets into Applications like the controller of Argo CD 3.2, without cluster and
// network.
//
// It is tested against recordings of the real controller: testdata/cases has a folder per case, and `task record`
// records them. The order of operations follows upstream's applicationset/generators, applicationset/utils and
// applicationset/controllers; oddities are commented.
package appset
