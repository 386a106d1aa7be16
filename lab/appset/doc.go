// Package appset expands ApplicationSets into Applications like the controller of Argo CD, without cluster and network, in the minor that World.Minor and API.Minor
// name: 3.2 to 3.6.
//
// It is tested against recordings of the real controllers: testdata/cases has a folder per case, testdata/recorded.yaml the versions, and `task record`
// records them. The order of operations follows upstream's applicationset/generators, applicationset/utils and
// applicationset/controllers; oddities are commented.
package appset
