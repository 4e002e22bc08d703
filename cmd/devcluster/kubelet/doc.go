// Package kubelet stands in for what a cluster has outside its control plane: scheduler, kubelet, load balancers and volumes.
//
// It keeps one Node, binds every pod to it, moves the pod's status as a real kubelet would for an image that works, and
// finishes deletions. Services of type LoadBalancer get an address, claims become Bound. Nothing runs and nothing listens:
// only the API objects move. The annotations in annotations.go let a test or a chart ask for slow or failing ones.
package kubelet
