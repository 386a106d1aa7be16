// Package appset expands ApplicationSets into Applications as the controller of Argo CD 3.2 does, without a cluster and without a network.
//
// What it computes is held to recordings of the real controller: testdata/cases has a folder a case, and `task record` plays them on a real one.
// The order of what happens is upstream's applicationset/generators, applicationset/utils and applicationset/controllers; where it is odd the code says so.
package appset
