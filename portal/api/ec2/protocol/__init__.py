"""The protocol: parsing of parameters, serialization as XML, and signatures, independent of actions and resources."""
