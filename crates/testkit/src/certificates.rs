//! A certificate authority and a server's certificate for 127.0.0.1, made anew for each server.
//!
//! For tests only: the keys lie in the server's directory and go with it.

use crate::directory::Directory;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

pub(crate) const AUTHORITY: &str = "authority.pem";
pub(crate) const CERTIFICATE: &str = "server.pem";
pub(crate) const KEY: &str = "server.key";

/// Writes the authority's certificate, and the server's with its key.
pub(crate) fn write(directory: &Directory) {
    generate(directory).unwrap_or_else(|error| panic!("can't make certificates: {error}"));
}

fn generate(directory: &Directory) -> Result<(), rcgen::Error> {
    let authority_key = KeyPair::generate()?;
    let authority = authority()?;
    directory.write(AUTHORITY, &authority.self_signed(&authority_key)?.pem());

    let server_key = KeyPair::generate()?;
    let issuer = Issuer::new(authority, authority_key);
    directory.write(CERTIFICATE, &server()?.signed_by(&server_key, &issuer)?.pem());
    directory.write(KEY, &server_key.serialize_pem());
    Ok(())
}

fn authority() -> Result<CertificateParams, rcgen::Error> {
    let mut parameters = CertificateParams::new(Vec::new())?;
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.distinguished_name.push(DnType::CommonName, "Tidegate test authority");
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(parameters)
}

fn server() -> Result<CertificateParams, rcgen::Error> {
    let mut parameters = CertificateParams::new(["127.0.0.1".to_owned(), "localhost".to_owned()])?;
    parameters.distinguished_name.push(DnType::CommonName, "Tidegate test server");
    parameters.use_authority_key_identifier_extension = true;
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(parameters)
}
