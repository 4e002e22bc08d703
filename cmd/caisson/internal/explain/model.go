package explain

import (
	"time"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// Version is that of [Explanation] as machines read it. Fields may be added to a version;
// none goes away or changes its meaning.
const Version = 1

// Cluster is what an explanation is made of.
type Cluster struct {
	// Stack is the one to explain.
	Stack *v1alpha1.Stack
	// Modules and Applications are those that the Stack may use; more do no harm.
	Modules      []v1alpha1.Module
	Applications []v1alpha1.Application
	// Unread names the kinds that could not be read, for instance Modules.
	Unread []string
}

// Explanation is a Stack in words.
type Explanation struct {
	Version   int    `json:"version"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Phase is what stack tree shows: the reason of the Available condition, or Pending
	// before the operator has looked at the current spec.
	Phase     string `json:"phase"`
	Available bool   `json:"available"`
	// Headline is how the Stack is, as one sentence.
	Headline string `json:"headline"`
	// Since is when it became Available or ceased to be; absent if that is not known.
	Since        *time.Time `json:"since,omitempty"`
	SinceSeconds int64      `json:"sinceSeconds"`
	// Parked says that nothing happens before somebody acts.
	Parked bool `json:"parked"`
	// Leaves counts those that are OK, for instance 3/5.
	Leaves string `json:"leaves,omitempty"`
	// Findings are the nodes that are not as desired, the one that decides first.
	Findings []Finding `json:"findings,omitempty"`
	// Steps are for the whole Stack, after those of the findings.
	Steps []Step `json:"steps,omitempty"`
	// Next is what happens although nobody does anything.
	Next []string `json:"next,omitempty"`
	// Others are the nodes that are no findings, by disposition.
	Others []Group `json:"others,omitempty"`
	// Modules are those that the Stack uses and that are not ready.
	Modules []Module `json:"modules,omitempty"`
	// Retained is what a removal keeps on purpose; Abandoned what a deletion gave up.
	Retained  []string `json:"retained,omitempty"`
	Abandoned []string `json:"abandoned,omitempty"`
	// Unread names the kinds that the reader may not read.
	Unread []string `json:"unread,omitempty"`
}

// Finding is a node that is not as desired, or the Stack itself if it has no path.
type Finding struct {
	Path string `json:"path,omitempty"`
	Kind string `json:"kind"`
	// ActsOn says what the node is about, for instance: module storage, on remote workload.
	ActsOn      string `json:"actsOn,omitempty"`
	Disposition string `json:"disposition,omitempty"`
	Reason      string `json:"reason,omitempty"`
	// Says is the sentence of the reason.
	Says         string     `json:"says"`
	Since        *time.Time `json:"since,omitempty"`
	SinceSeconds int64      `json:"sinceSeconds"`
	// Steps are what takes the cause away.
	Steps []Step `json:"steps,omitempty"`
}

// Step is something that a person can do.
type Step struct {
	Text string `json:"text"`
	// Commands are for a shell, one a line.
	Commands []string `json:"commands,omitempty"`
}

// Group is nodes of one disposition.
type Group struct {
	Disposition string   `json:"disposition"`
	Nodes       []string `json:"nodes"`
}

// Module is one that is not ready, with the words of its own condition.
type Module struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
	Says   string `json:"says"`
}
