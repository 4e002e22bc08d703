package plan

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// TestDocumentsHoldValidStacks proves that what people copy out of the documents makes a
// tree.
func TestDocumentsHoldValidStacks(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```")
	for _, file := range []string{"../../README.md", "../../examples/platform/stack.yaml"} {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		documents := []string{string(raw)}
		if strings.HasSuffix(file, ".md") {
			documents = nil
			for _, block := range blocks.FindAllStringSubmatch(string(raw), -1) {
				documents = append(documents, block[1])
			}
		}
		found := 0
		for _, document := range documents {
			if !strings.Contains(document, "kind: Stack") {
				continue
			}
			found++
			stack := &v1alpha1.Stack{}
			require.NoError(t, yaml.UnmarshalStrict([]byte(document), stack), file)
			stack.UID = "u"
			tree, err := Build(stack, newWorld(t, stack).dependencies())
			require.NoError(t, err, file)
			require.Len(t, tree.Nodes(), len(stack.Spec.Provisioners), "%s: every node is in the tree", file)
		}
		require.NotZero(t, found, "%s shows a Stack", file)
	}
}
