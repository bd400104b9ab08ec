//! A certificate authority, and certificates of it for servers of this machine and for clients, made anew for each
//! test.
//!
//! For tests only: the keys lie in a test's directory and go with it.

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
    let authority = Authority::new();
    let server = authority.server();
    directory.write(AUTHORITY, authority.pem());
    directory.write(CERTIFICATE, &server.certificate);
    directory.write(KEY, &server.key);
}

/// Whoever trusts it trusts what it issued.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// In PEM form.
#[derive(Clone, Debug)]
pub struct Issued {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    #[expect(clippy::new_without_default, reason = "two of them are never equal")]
    pub fn new() -> Self {
        made(|| {
            let (key, parameters) = (KeyPair::generate()?, authority()?);
            let pem = parameters.self_signed(&key)?.pem();
            Ok(Authority { issuer: Issuer::new(parameters, key), pem })
        })
    }

    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// For a server at 127.0.0.1 or localhost, and at 0.0.0.0: the same machine by an address that isn't loopback.
    pub fn server(&self) -> Issued {
        let names = ["127.0.0.1", "localhost", "0.0.0.0"].map(str::to_owned);
        self.issue("Tidegate test server", &names, &ExtendedKeyUsagePurpose::ServerAuth)
    }

    pub fn client(&self) -> Issued {
        self.issue("Tidegate test client", &[], &ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn issue(&self, name: &str, names: &[String], purpose: &ExtendedKeyUsagePurpose) -> Issued {
        made(|| {
            let mut parameters = CertificateParams::new(names)?;
            parameters.distinguished_name.push(DnType::CommonName, name);
            parameters.use_authority_key_identifier_extension = true;
            parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            parameters.extended_key_usages = vec![purpose.clone()];
            let key = KeyPair::generate()?;
            let certificate = parameters.signed_by(&key, &self.issuer)?.pem();
            Ok(Issued { certificate, key: key.serialize_pem() })
        })
    }
}

fn made<T>(make: impl FnOnce() -> Result<T, rcgen::Error>) -> T {
    make().unwrap_or_else(|error| panic!("can't make certificates: {error}"))
}

fn authority() -> Result<CertificateParams, rcgen::Error> {
    let mut parameters = CertificateParams::new(Vec::new())?;
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.distinguished_name.push(DnType::CommonName, "Tidegate test authority");
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(parameters)
}
