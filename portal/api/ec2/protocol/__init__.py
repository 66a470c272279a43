"""The wire: parameters to arguments, results to XML, and who signed; knows no action and no resource."""
