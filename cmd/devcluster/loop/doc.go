// Package loop runs one keyed work queue over one informer.
//
// The stand-ins of devcluster (pods, Services, claims, namespaces) differ only in what they do with one object; watching,
// queueing, retrying and stopping are the same and live here.
package loop
